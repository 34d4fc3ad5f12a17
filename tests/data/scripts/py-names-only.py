import os

import wandb

from train import main

rank = int(os.environ["SLURM_PROCID"])
name = f"vit-{os.environ['SLURM_NNODES']}n"
if rank == 0:
    wandb.init(name=name, config={"nodelist": os.environ.get("SLURM_JOB_NODELIST")})
main(rank)
