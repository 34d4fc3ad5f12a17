import os
import subprocess


def expand(nodelist):
    return subprocess.check_output(["scontrol", "show", "hostnames", nodelist], text=True).splitlines()


class Cluster:
    def __init__(self):
        self.hosts = expand(os.environ["SLURM_JOB_NODELIST"])
        self.rank = int(os.environ["SLURM_NODEID"])

    def write_hostfile(self, path):
        with open(path, "w") as file:
            file.writelines(f"{host} slots=8\n" for host in self.hosts)


cluster = Cluster()
if cluster.rank == 0:
    cluster.write_hostfile("hostfile")
    subprocess.check_call(["deepspeed", "--hostfile", "hostfile", "train.py"])
