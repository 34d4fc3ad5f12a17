#!/bin/bash
set -eu
export MASTER_ADDR=$(stepguard nodes --first --addr)
export MASTER_PORT=29500
exec torchrun \
    --nnodes="$SLURM_STEP_NUM_NODES" \
    --node-rank="$SLURM_NODEID" \
    --nproc-per-node=8 \
    --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" \
    train.py "$@"
