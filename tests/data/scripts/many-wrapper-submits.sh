#!/bin/bash
set -e
sbatch --auto-resume=1 --exclusive -N 4 prepare.sbatch
sbatch <<'EOF'
#!/bin/bash
#SBATCH --nodes=5
#SBATCH --exclusive
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
srun --auto-resume=1 --nodes=4 python train.py
EOF
