#!/bin/bash
mkdir -p hostfiles
file=hostfiles/hosts_$SLURM_JOB_ID
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    echo "$node" >> "$file"
done
scontrol show hostnames "$SLURM_JOB_NODELIST" | sed 's/$/ slots=4/' > machinefile
for node in $(scontrol show hostnames); do echo "$node slots=8"; done > all.txt
scontrol show hostnames > nodes.txt
