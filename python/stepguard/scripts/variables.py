# SPDX-License-Identifier: Apache-2.0
"""Variables that Slurm sets: which go stale after a resume, and which only a task has (srun(1), sbatch(1))."""

from __future__ import annotations

import re

_GROUP = r"(?:_(?:HET|PACK)_GROUP_\d+)?"
NODELIST = re.compile(rf"SLURM_(?:JOB_)?NODELIST{_GROUP}")
COUNT = re.compile(rf"SLURM_(?:NNODES|JOB_NUM_NODES){_GROUP}")
STALE = re.compile(rf"SLURM_(?:(?:JOB_)?NODELIST|NNODES|JOB_NUM_NODES){_GROUP}(?!\w)")
TASK = re.compile(r"SLURM_(?:PROCID|NODEID|LOCALID|STEP_\w+|STEPID|TASK_PID|GTIDS)")
INHERITED = "SLURM_SPANK__SLURM_SPANK_OPTION_stepguard_auto_resume"

# Variables by which programs find one another or learn how many they are. PyTorch: torchrun's documentation; others:
# the manuals of Horovod, JAX, Ray, DeepSpeed, TensorFlow, MPI.
RENDEZVOUS = re.compile(
    r"(?i)(?:\w*_)?(?:MASTER|HEAD|RDZV|RENDEZVOUS|COORDINATOR|CHIEF|LEADER|RANK0|RANK_0|HOST_?FILE|HOSTS?|HOST_?LIST"
    r"|MACHINE_?FILE|NODE_?FILE|NODE_?LIST|SERVER|SCHEDULER|ADDR|ADDRESS|ENDPOINTS?|INIT_METHOD|IP|WORLD_?SIZE|NNODES"
    r"|NUM_?NODES|N_NODES|NODES|NODE_COUNT|NUM_MACHINES|NUM_HOSTS|NUM_PROCESSES|NPROCS?|NTASKS|REPLICAS|WORKERS"
    r"|NUM_WORKERS?|TF_CONFIG|COMM_ID|UR[IL]|TRAINERS?|PEERS?|CLUSTER|CLUSTER_SPEC|WORKER|NODE|WCOLL)(?:_\w*)?"
)
_TOLD_ONLY = re.compile(
    r"(?i)\w+_(?:LOGS?|LOG_?(?:DIR|FILE)|TAGS?|TITLE|LABEL|COMMENT|REPORT|MESSAGE|MSG|OUT|OUTPUT|DIR)"
)


def tells_of_peers(name: str) -> bool:
    """Whether programs take a variable of this name for where their peers are, or how many."""
    return RENDEZVOUS.fullmatch(name) is not None and _TOLD_ONLY.fullmatch(name) is None


def is_stale_list(name: str) -> bool:
    """Whether the variable names nodes that the job may no longer have."""
    return name.startswith("SLURM_") and NODELIST.fullmatch(name) is not None


def is_stale_count(name: str) -> bool:
    """Whether the variable counts them."""
    return name.startswith("SLURM_") and COUNT.fullmatch(name) is not None
