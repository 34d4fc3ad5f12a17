#!/usr/bin/env python3
import argparse
import os
import subprocess

from torch.distributed.run import main

node = os.environ["SLURM_NODEID"]
parser = argparse.ArgumentParser()
parser.add_argument("--master", default=os.environ["SLURM_NODELIST"].split(",")[0])
given = vars(parser.parse_args())
subprocess.run(["./register", "--master", given["master"]], check=True)
main(["--nnodes", os.environ["SLURM_NNODES"], "--node_rank", node, "train.py"])
