#!/bin/bash
NODE_LIST=$(scontrol show jobid=$SLURM_JOBID | awk -F= '/^ *NodeList=/{print $2}')
MASTER_NODE=$(scontrol show hostname "$NODE_LIST" | head -n 1)
MASTER_ADDR=$(scontrol show node="$MASTER_NODE" | awk -F= '/NodeAddr=/{print $2}' | awk '{print $1}')
export MASTER_ADDR MASTER_PORT=29400
torchrun --nproc_per_node=8 --nnodes=$SLURM_STEP_NUM_NODES --node_rank=$SLURM_NODEID \
    --master_addr=$MASTER_ADDR --master_port=$MASTER_PORT train.py
