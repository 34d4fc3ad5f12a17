import asyncio
import os
import socket
import sqlite3

import jax
import paramiko
from dask.distributed import Client, SSHCluster

rank = int(os.environ["SLURM_PROCID"])
sqlite3.connect(f"runs-{os.environ['SLURM_NNODES']}.db")
jax.distributed.initialize(os.environ["SLURM_JOB_NODELIST"].split(",")[0] + ":1234", 4, rank)
Client(os.environ["SLURM_NODELIST"] + ":8786")
SSHCluster(os.environ["SLURM_JOB_NODELIST"].split(","))
ssh = paramiko.SSHClient()
ssh.connect(os.environ["SLURM_NODELIST"])
socket.create_connection((os.environ["SLURM_NODELIST"], 80))


async def remote():
    await asyncio.create_subprocess_exec("ssh", os.environ["SLURM_NODELIST"], "hostname")
    await asyncio.create_subprocess_shell(f"pdsh -w {os.environ['SLURM_JOB_NODELIST']} hostname")


asyncio.run(remote())
os.execlp("torchrun", "torchrun", "--nnodes", os.environ["SLURM_NNODES"], "train.py")
