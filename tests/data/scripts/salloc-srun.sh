#!/bin/sh
exec salloc --nodes=4 --exclusive --time=60 srun --auto-resume=1 --nodes=3 python train.py
