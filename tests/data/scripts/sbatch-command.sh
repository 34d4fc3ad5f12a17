#!/bin/bash
for seed in 1 2 3; do
    sbatch --auto-resume=1 --nodes=4 --exclusive --export=ALL,SEED=$seed train.sbatch
done
