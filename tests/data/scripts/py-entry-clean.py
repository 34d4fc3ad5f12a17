import os
import subprocess

import torch.distributed as dist

rank = int(os.environ["SLURM_PROCID"])
nodes = os.environ["SLURM_STEP_NODELIST"]
first = subprocess.check_output(["scontrol", "show", "hostnames", nodes], text=True).split()[0]
dist.init_process_group("nccl", init_method=f"tcp://{first}:29500", rank=rank, world_size=int(os.environ["SLURM_NTASKS"]))
