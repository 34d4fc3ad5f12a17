#!/bin/bash
NODES=${1:-4}
WORLD=$((NODES * 8))
jid=$(sbatch --parsable --nodes=$NODES --export=ALL,WORLD=$WORLD train.sbatch)
sbatch --dependency=afternotok:$jid --nodes=$NODES train.sbatch
echo "submitted $jid; once it runs: squeue -j $jid -o %N, or srun --jobid=$jid --pty bash"
