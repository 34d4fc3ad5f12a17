import os
import subprocess

rank = os.environ["SLURM_PROCID"]
head = os.environ["SLURM_JOB_NODELIST"].split(",")[0]
if os.path.exists("/opt/stepguard"):
    head = subprocess.check_output(["stepguard", "nodes", "--first"], text=True).strip()
os.environ["MASTER_ADDR"] = head
