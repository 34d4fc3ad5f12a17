#!/bin/bash
set -u
echo "task $SLURM_PROCID on $(hostname), list $SLURM_JOB_NODELIST"
hosts=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
export MASTER_ADDR=${hosts[0]}
export WORLD_SIZE=$((SLURM_NNODES * SLURM_GPUS_ON_NODE))
export NNODES=$SLURM_JOB_NUM_NODES
scontrol show hostnames > "/tmp/mf.$SLURM_LOCALID"
exec torchrun --nnodes=$NNODES --node-rank=$SLURM_NODEID --nproc-per-node=$SLURM_GPUS_ON_NODE \
    --master-addr=$MASTER_ADDR train.py --machine-file "/tmp/mf.$SLURM_LOCALID"
