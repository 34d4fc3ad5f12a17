import os
import subprocess


def env(name, default=None):
    return os.environ.get(name, default)


rank = env("SLURM_PROCID")
nodes = env("SLURM_NNODES", "1")
port = env("MASTER_PORT", "29500")
subprocess.run(["torchrun", f"--nnodes={nodes}", f"--node-rank={rank}", f"--master-port={port}", "train.py"])
