#!/bin/bash
sbatch --nodes=4 --exclusive --gpus-per-node=8 \
       --wrap="srun --auto-resume=1 --nodes=3 python train.py"
