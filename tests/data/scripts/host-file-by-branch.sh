#!/bin/bash
#SBATCH --nodes=4
if [[ -z "$NODEFILE" ]]; then
    if [[ -n "$SLURM_NODELIST" ]]; then
        NODEFILE=/tmp/nodes.$$
        scontrol show hostnames "$SLURM_NODELIST" > "$NODEFILE"
    elif [[ -n "$COBALT_NODEFILE" ]]; then
        NODEFILE=$COBALT_NODEFILE
    fi
fi
for node in $(tr '\n' ' ' < "$NODEFILE"); do
    ssh "$node" ./copy &
done
openmpi_hostfile.pl "$SLURM_JOB_NODELIST" 1 "hf.$SLURM_JOB_ID"
mpirun -hostfile "hf.$SLURM_JOB_ID" ./solve
julia -p "$SLURM_NNODES" --threads 8 run.jl
