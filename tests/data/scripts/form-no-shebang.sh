# site settings, sourced by all job scripts
export NCCL_IB_HCA=mlx5
export NCCL_SOCKET_IFNAME=ib0
if [ -n "${SLURM_JOB_ID:-}" ]; then
    MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
    export MASTER_ADDR
fi
