#!/usr/bin/env python3
import os
import socket
import subprocess

import click

from mesh import setup_distributed, setup_logging

hosts = subprocess.check_output(["scontrol", "show", "hostnames"], text=True).split()
task = os.environ["SLURM_PROCID"]
if socket.gethostname().split(".")[0] == hosts[0]:
    subprocess.run(["./server"], check=True)
else:
    subprocess.run(["./client", task], check=True)
setup_logging(os.environ["SLURM_JOB_NODELIST"])
setup_distributed(os.environ["SLURM_JOB_NODELIST"], task)


@click.command()
@click.option("--nodes", default=lambda: os.environ["SLURM_NNODES"])
def main(nodes):
    subprocess.run(["torchrun", f"--nnodes={nodes}", "train.py"], check=True)


main()
