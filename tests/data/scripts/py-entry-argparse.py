#!/usr/bin/env python3
import argparse
import os
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--nnodes", type=int, default=int(os.environ.get("SLURM_NNODES", "1")))
parser.add_argument("--node-rank", type=int, default=int(os.environ.get("SLURM_NODEID", "0")))
parser.add_argument("script")
args = parser.parse_args()

sys.exit(
    subprocess.call(
        ["torchrun", f"--nnodes={args.nnodes}", f"--node-rank={args.node_rank}", "--nproc-per-node=8", args.script]
    )
)
