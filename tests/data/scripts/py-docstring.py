"""Starts a worker.

Reads SLURM_PROCID. Formerly MASTER_ADDR came from SLURM_JOB_NODELIST, by
    srun --auto-resume=1 --nodes=$SLURM_NNODES python entry.py
"""
import argparse
import os

# os.environ["SLURM_JOB_NODELIST"] is stale after a resume
parser = argparse.ArgumentParser(epilog="run me by: srun --auto-resume=1 python entry.py")
parser.add_argument("--port", type=int, default=29500, help="not SLURM_NNODES")
args = parser.parse_args()
rank = int(os.environ["SLURM_PROCID"])
print(f"rank {rank}, port {args.port}")
