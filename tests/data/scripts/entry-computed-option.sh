#!/bin/bash
rank=$SLURM_PROCID
batch=$((1024 / SLURM_NNODES))
world=$((8 * SLURM_NNODES))
python train.py --rank "$rank" --batch-size "$batch" --world-size "$world"
