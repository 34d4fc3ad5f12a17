#!/bin/bash
echo "task $SLURM_PROCID"
first=$(scontrol show hostnames "$SLURM_STEP_NODELIST" | head -n 1)
if [ "$first" = "$(hostname -s)" ]; then
    ./store &
fi
if [[ "$SLURM_JOB_NODELIST" == *"$(hostname -s)"* ]]; then
    echo "this host was there from the start"
fi
case "$(hostname)" in
    gpu*) module load cuda ;;
esac
./train
