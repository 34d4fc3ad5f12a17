#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What each node of a guarded step runs, in every attempt anew: torchrun, which starts the training for each GPU.
#
#     srun --auto-resume=1 --ntasks-per-node=1 … bash torchrun-node.sh train.py ARGUMENT…
#
# Without --rdzv-backend, torchrun's rendezvous is the static one: node 0 listens, and ranks go by --node-rank, so that
# they stay on their nodes over a resume. With c10d torchrun numbers them anew, and ignores --node-rank.
set -eu

first=$(/opt/stepguard/bin/stepguard nodes --first --addr)

# A comment behind one of these backslashes would end the command there.
exec torchrun \
    --nnodes="$SLURM_STEP_NUM_NODES" \
    --node-rank="$SLURM_NODEID" \
    --nproc-per-node="$SLURM_GPUS_ON_NODE" \
    --master-addr="$first" \
    --master-port=29500 \
    "$@"
