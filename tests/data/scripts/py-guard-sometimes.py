#!/usr/bin/env python3
import os
import subprocess

command = ["srun", "--nodes=4"]
if os.path.isdir("/opt/stepguard"):
    command.append("--auto-resume=1")
subprocess.run([*command, "python", "train.py"], check=True)
