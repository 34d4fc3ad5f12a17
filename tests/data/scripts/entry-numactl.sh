#!/bin/bash
case $SLURM_LOCALID in
    0) gpu=0; cpus=0-15;  nic=mlx5_0 ;;
    1) gpu=1; cpus=16-31; nic=mlx5_1 ;;
    2) gpu=2; cpus=32-47; nic=mlx5_2 ;;
    3) gpu=3; cpus=48-63; nic=mlx5_3 ;;
esac
export CUDA_VISIBLE_DEVICES=$gpu UCX_NET_DEVICES=$nic:1
echo "$SLURMD_NODENAME task $SLURM_PROCID of $SLURM_NTASKS: gpu $gpu cpus $cpus" >&2
exec numactl --physcpubind=$cpus "$@"
