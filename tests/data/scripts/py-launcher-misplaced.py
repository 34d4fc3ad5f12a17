#!/usr/bin/env python3
import subprocess

subprocess.run(["srun", "--nodes=4", "python", "train.py", "--auto-resume=1"], check=True)
