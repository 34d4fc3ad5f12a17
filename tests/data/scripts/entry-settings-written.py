#!/usr/bin/env python3
import os
import subprocess

import yaml

rank = int(os.environ["SLURM_PROCID"])
settings = {
    "nodes": int(os.environ["SLURM_NNODES"]),
    "run": {"description": os.environ["SLURM_JOB_NODELIST"]},
    "lr": 1e-3,
}
with open("run.yaml", "w") as file:
    yaml.safe_dump(settings, file)
subprocess.run(["./train", "--config", "run.yaml"], check=True)
