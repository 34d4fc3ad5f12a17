#!/bin/csh -f
#SBATCH --nodes=2
echo "nodes: $SLURM_JOB_NODELIST"
# was: set hosts = $SLURM_NODELIST
set hosts = `scontrol show hostnames $SLURM_JOB_NODELIST`
foreach h ($hosts)
    ssh $h uptime
end
