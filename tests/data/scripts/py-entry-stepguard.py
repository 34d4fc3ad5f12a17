#!/usr/bin/env python3
import os
import subprocess

os.environ["MASTER_ADDR"] = subprocess.run(
    ["stepguard", "nodes", "--first", "--addr"], check=True, capture_output=True, text=True
).stdout.strip()
os.environ["RANK"] = os.environ["SLURM_PROCID"]
os.execvp("python", ["python", "train.py"])
