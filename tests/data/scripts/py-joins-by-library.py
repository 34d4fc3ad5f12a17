import os
import runpy
import sys
from multiprocessing.connection import Client

import horovod
from torch.distributed.device_mesh import init_device_mesh

rank = int(os.environ["SLURM_PROCID"])
hosts = os.environ["SLURM_JOB_NODELIST"].split(",")
count = int(os.environ["SLURM_NNODES"])
print("hosts", hosts, sys.argv)
log = Client((hosts[0], 6000))
mesh = init_device_mesh("cuda", (count, 8))
horovod.run(print, np=8, hosts=os.environ["SLURM_NODELIST"])
sys.argv = ["train.py", "--num-nodes", os.environ["SLURM_JOB_NUM_NODES"]]
runpy.run_path("train.py", run_name="__main__")
