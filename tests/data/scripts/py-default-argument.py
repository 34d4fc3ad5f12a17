import os
import subprocess
from dataclasses import dataclass, field

import torch.distributed as dist


@dataclass
class Cluster:
    nodelist: str = field(default_factory=lambda: os.environ["SLURM_JOB_NODELIST"])
    rank: int = int(os.environ["SLURM_PROCID"])

    @property
    def master(self):
        return subprocess.getoutput(f"scontrol show hostnames {self.nodelist} | head -n1")

    def url(self, port=29500):
        return f"tcp://{self.master}:{port}"


def count(nodes=os.environ["SLURM_NNODES"]):
    return int(nodes)


size = lambda: os.environ["SLURM_JOB_NUM_NODES"]
subprocess.run(["torchrun", "--nnodes", str(count()), "a.py"])
subprocess.run(["torchrun", "--nnodes", size(), "b.py"])
cluster = Cluster()
dist.init_process_group("nccl", cluster.url(), rank=cluster.rank)
