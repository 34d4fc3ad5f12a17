import os
import re
import subprocess

job = subprocess.check_output(["scontrol", "show", "job", os.environ["SLURM_JOB_ID"]], text=True)
nodes = re.search(r"^\s*NodeList=(\S+)", job, re.MULTILINE).group(1)
head = subprocess.check_output(["scontrol", "show", "hostnames", nodes], text=True).split()[0]
os.environ["MASTER_ADDR"] = head
os.environ["RANK"] = os.environ["SLURM_PROCID"]
os.execvp("python3", ["python3", "train.py"])
