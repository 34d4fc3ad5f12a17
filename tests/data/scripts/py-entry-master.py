import os
import subprocess

import torch
import torch.distributed as dist


def init():
    rank = int(os.environ["SLURM_PROCID"])
    world = int(os.environ["SLURM_NTASKS"])
    nodes = os.environ["SLURM_JOB_NODELIST"]
    first = subprocess.check_output(["scontrol", "show", "hostnames", nodes]).decode().split()[0]
    os.environ["MASTER_ADDR"] = first
    os.environ["MASTER_PORT"] = "29500"
    dist.init_process_group("nccl", rank=rank, world_size=world)


if __name__ == "__main__":
    init()
    torch.cuda.set_device(int(os.environ["SLURM_LOCALID"]))
