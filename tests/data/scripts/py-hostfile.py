import os
import subprocess
from pathlib import Path

rank = os.environ["SLURM_NODEID"]
hosts = subprocess.check_output(["scontrol", "show", "hostnames"], text=True).split()
folder = Path(os.environ["SCRATCH"]) / "job"
hostfile = folder / "hosts.txt"
with open(hostfile, "w") as file:
    for host in hosts:
        print(host, "slots=8", file=file)
with (folder / "nodes.log").open("w") as file:
    file.write(os.environ["SLURM_JOB_NODELIST"])
subprocess.run(["mpirun", "--hostfile", str(hostfile), "./train"], check=True)
subprocess.run(["cat", str(folder / "nodes.log")], check=True)
