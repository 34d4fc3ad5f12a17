#!/bin/bash
set -eu
for size in 125m 350m 760m; do
    cat > "job_$size.sbatch" <<EOF
#!/bin/bash
#SBATCH --job-name=gpt-$size
#SBATCH --nodes=2
#SBATCH --exclusive
#SBATCH --gpus-per-node=8
srun python train.py --size $size
EOF
    sbatch "job_$size.sbatch"
done
