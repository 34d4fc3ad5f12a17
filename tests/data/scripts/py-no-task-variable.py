import os
import subprocess

hosts = subprocess.getoutput("scontrol show hostnames " + os.environ["SLURM_JOB_NODELIST"]).split()
for host in hosts:
    subprocess.Popen(["ssh", host, "python", "worker.py", "--master", hosts[0]])
