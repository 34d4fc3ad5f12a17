import os

os.environ["RANK"] = os.environ["SLURM_PROCID"]
os.system("export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1); exec python train.py")
