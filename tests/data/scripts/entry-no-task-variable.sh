#!/bin/bash
HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
export MASTER_ADDR=$HEAD
exec python -m torch.distributed.run --nnodes=2 --nproc-per-node=4 --rdzv-endpoint=$HEAD:29500 train.py
