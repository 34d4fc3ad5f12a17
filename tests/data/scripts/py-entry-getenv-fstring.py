import os
import re

import torch.distributed as dist

NODELIST = os.getenv("SLURM_NODELIST", "localhost")
head = re.split(r"[,\[]", NODELIST)[0]
url = f"tcp://{head}:23456"
dist.init_process_group(
    backend="nccl",
    init_method=url,
    rank=int(os.getenv("SLURM_PROCID", 0)),
    world_size=int(os.getenv("SLURM_NTASKS", 1)),
)
