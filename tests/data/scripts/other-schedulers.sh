#!/bin/bash
if [ -n "$PBS_NODEFILE" ]; then
    HEAD=$(head -n 1 "$PBS_NODEFILE")
elif [ -n "$LSB_HOSTS" ]; then
    HEAD=${LSB_HOSTS%% *}
elif [ -n "$SLURM_JOB_ID" ]; then
    HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
else
    HEAD=localhost
fi
export MASTER_ADDR=$HEAD
exec python train.py "$@"
