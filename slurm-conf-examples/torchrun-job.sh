#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A PyTorch training with torchrun, on two nodes of a job that holds a third as a spare:
#
#     sbatch torchrun-job.sh train.py ARGUMENT…
#
# Submit it from the directory that has torchrun-node.sh. The training loads its newest checkpoint by itself.
#SBATCH --nodes=3
#SBATCH --exclusive
#SBATCH --gres=gpu:8
#SBATCH --requeue
#SBATCH --open-mode=append

# Nothing here knows the nodes: a step that goes on elsewhere does not come back to these lines.
srun --auto-resume=1 --nodes=2 --ntasks-per-node=1 --gres=gpu:8 bash torchrun-node.sh "$@"
