#!/bin/bash
# started by srun, one task a node
set -eu
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
export MASTER_PORT=29500
exec torchrun \
    --nnodes="$SLURM_NNODES" \
    --node-rank="$SLURM_NODEID" \
    --nproc-per-node=8 \
    --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" \
    train.py "$@"
