# SPDX-License-Identifier: Apache-2.0
"""Variables that Slurm sets: which go stale after a resume, and which only a task has (srun(1), sbatch(1))."""

from __future__ import annotations

import re
from functools import lru_cache

_GROUP = r"(?:_(?:HET|PACK)_GROUP_\d+)?"
NODELIST = re.compile(rf"SLURM_(?:JOB_)?NODELIST{_GROUP}")
COUNT = re.compile(rf"SLURM_(?:NNODES|JOB_NUM_NODES){_GROUP}")
STALE = re.compile(rf"SLURM_(?:(?:JOB_)?NODELIST|NNODES|JOB_NUM_NODES){_GROUP}(?!\w)")
# scontrol show hostnames without a list takes the job's.
HOSTNAMES_ALONE = re.compile(r"\bscontrol\s+(?:-\S+\s+)*sho?w?\s+hostna\w*(?=\s*(?:[`|;)\"'&>]|$))")
TASK = re.compile(r"SLURM_(?:PROCID|NODEID|LOCALID|STEP_\w+|STEPID|TASK_PID|GTIDS)")
THIS_HOST = frozenset(("HOSTNAME", "HOST", "SLURMD_NODENAME"))
INHERITED = "SLURM_SPANK__SLURM_SPANK_OPTION_stepguard_auto_resume"

# Variables by which programs find one another or learn how many they are. PyTorch: torchrun's documentation; others:
# the manuals of Horovod, JAX, Ray, DeepSpeed, TensorFlow, MPI.
RENDEZVOUS = re.compile(
    r"(?i)(?:\w*_)?(?:MASTER|HEAD|RDZV|RENDEZVOUS|COORDINATOR|CHIEF|LEADER|RANK0|RANK_0|HOST_?FILE|HOSTS?|HOST_?LIST"
    r"|MACHINE_?FILE|NODE_?FILE|NODE_?LIST|SERVER|SCHEDULER|ADDR|ADDRESS|ENDPOINTS?|INIT_METHOD|IP|WORLD_?SIZE|NNODES"
    r"|NODES?|REPLICAS|WORKERS?|TF_CONFIG|COMM_ID|UR[IL]|TRAINERS?|PEERS?|CLUSTER|CLUSTER_SPEC|WCOLL|GPUS|RANKS|PROCESSES"
    r"|MACHINES|(?:N|NUM|TOTAL)_?(?:NODE|HOST|MACHINE|SERVER|INSTANCE|REPLICA|WORKER|TRAINER|TASK|RANK|GPU|DEVICE|PROC"
    r"|PROCESSE)S?|(?:PS|NODE|HOST|MACHINE|SERVER|WORKER|GPU|PROC)_?(?:NUM|COUNT)"
    r"|WORLD|DP_SIZE|DATA_PARALLEL_SIZE|WDEF)(?:_\w*)?"
)
_TOLD_ONLY = re.compile(
    r"(?i)(?:START(?:ED)?|INITIAL|ORIG(?:INAL)?|OLD|PREV(?:IOUS)?)_\w+|\w+_(?:LOGS?|LOG_?(?:DIR|FILE)|TAGS?|TITLE|LABEL|COMMENT|REPORT|MESSAGE|MSG|OUT|OUTPUT|DIR|PORTS?)"
)


# Words of a name for what only describes a run.
_DESCRIBES = re.compile(
    r"(?i)(?:^|_)(?:logs?|logging|tags?|title|label|comment|reports?|message|msg|out|output|dir|name|notes?|desc"
    r"|description|info|meta|metadata|group|wandb|mlflow|comet|run|exp|experiment|project|start|started|initial|orig"
    r"|original|old|saved|history|banner|prompt|ps1|subject|mail|text|status|summary|debug|prefix|suffix|id|path|header"
    r"|footer|version|job|key|hash|cache)(?:$|_)"
)


@lru_cache(maxsize=1024)
def may_tell_of_peers(name: str) -> bool:
    """Whether a variable that holds names of nodes may tell a program more than how its run is to be described."""
    return not name.startswith("SLURM") and _DESCRIBES.search(name) is None


@lru_cache(maxsize=1024)
def tells_of_peers(name: str) -> bool:
    """Whether programs take a variable of this name for where their peers are, or how many."""
    return RENDEZVOUS.fullmatch(name) is not None and _TOLD_ONLY.fullmatch(name) is None


def is_stale_list(name: str) -> bool:
    """Whether the variable names nodes that the job may no longer have."""
    return name.startswith("SLURM_") and NODELIST.fullmatch(name) is not None


def is_stale_count(name: str) -> bool:
    """Whether the variable counts them."""
    return name.startswith("SLURM_") and COUNT.fullmatch(name) is not None
