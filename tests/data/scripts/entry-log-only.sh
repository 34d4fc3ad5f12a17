#!/bin/bash
if [ "$SLURM_PROCID" -eq 0 ]; then
    echo "nodes: $SLURM_JOB_NODELIST ($SLURM_NNODES)"
    nvidia-smi topo -m
fi
export CUDA_VISIBLE_DEVICES=$SLURM_LOCALID
exec python train.py "$@"
