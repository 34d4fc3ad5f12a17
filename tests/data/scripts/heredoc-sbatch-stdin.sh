#!/bin/bash
NAME=${1:?name}
sbatch <<EOF
#!/bin/bash
#SBATCH --job-name=$NAME
#SBATCH --nodes=4
#SBATCH --exclusive
#SBATCH --auto-resume=1
srun python train.py --name $NAME
EOF
