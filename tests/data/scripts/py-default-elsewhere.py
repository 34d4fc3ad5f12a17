import os
import subprocess

rank = os.environ["SLURM_NODEID"]
if nodes := os.getenv("SLURM_JOB_NODELIST"):
    head = subprocess.check_output(["scontrol", "show", "hostnames", nodes], text=True).split()[0]
else:
    head = "localhost"
try:
    count = os.environ["SLURM_NNODES"]
except KeyError:
    count = "1"
pool = os.environ.get("SLURM_NODELIST")
if pool is None:
    pool = "localhost"
subprocess.run(["pdsh", "-w", pool, "true"], check=True)
os.system(f"torchrun --nnodes {count} --node-rank {rank} --master_addr={head} train.py")
