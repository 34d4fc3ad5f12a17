#!/bin/bash
# started by srun, one task a node
echo "task $SLURM_PROCID"
rank=0
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    [ "$node" = "$(hostname -s)" ] && NODE_RANK=$rank
    rank=$((rank + 1))
done
first=$(scontrol show hostnames | head -n 1)
if [[ "$first" == "${SLURMD_NODENAME}" ]]; then
    ./store &
fi
last=$(scontrol show hostnames | tail -n 1)
case "$(uname -n)" in
    "$last") ./monitor & ;;
    *) echo "no monitor here" ;;
esac
torchrun --node_rank "$NODE_RANK" train.py
