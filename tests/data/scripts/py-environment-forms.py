import os
import subprocess
from os import environ as e
from os import getenv as g

COUNT = "SLURM_NNODES"
rank = e["SLURM_PROCID"]
os.environ |= {"MASTER_ADDR": e["SLURM_JOB_NODELIST"].split(",")[0]}
os.environ.setdefault("NNODES", os.environ[COUNT])
e.update(HEAD_NODE=g("SLURM_NODELIST"))
subprocess.run(["./worker"], env={**os.environ, "HOSTS": os.environ["SLURM_JOB_NODELIST"]})
subprocess.run(["./worker"], env=dict(os.environ, NUM_NODES=os.environ["SLURM_NNODES"]))
private = os.environ.copy()
private["NODE_LIST"] = os.environ["SLURM_NODELIST"]
subprocess.run(["./worker"], env=private)
subprocess.run(["echo", "env"], env={"RUN": os.environ["SLURM_NNODES"]})
