#!/usr/bin/env python3
import os
import subprocess
import sys

hosts = os.environ["SLURM_JOB_NODELIST"]
step = subprocess.run(["srun", "--auto-resume=1", "--nodes=4", "-w", hosts, "python", "train.py"])
sys.exit(step.returncode)
