import os
import subprocess
import sys

RANK = os.environ["SLURM_NODEID"]


def launch(*words):
    subprocess.run(["torchrun", *words], check=True)


command = ["accelerate", "launch"]
command += ["--num_machines", os.environ["SLURM_NNODES"]]
command.append("--machine_rank=" + RANK)
command.extend(sys.argv[1:])
with subprocess.Popen(command + ["train.py"]) as process:
    process.wait()
hosts = os.environ["SLURM_JOB_NODELIST"]
words = ["true"]
words.insert(0, hosts)
words = ["pdsh", "-w"] + words
subprocess.call(words)
launch("--nnodes", os.environ["SLURM_JOB_NUM_NODES"], "train.py")
