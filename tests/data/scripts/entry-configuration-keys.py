#!/usr/bin/env python3
import os

import lightning
import yaml

rank = int(os.environ["SLURM_PROCID"])
config = yaml.safe_load(open("config.yaml"))
config["trainer"]["num_nodes"] = int(os.environ["SLURM_NNODES"])
config["run"]["name"] = f"on-{os.environ['SLURM_JOB_NODELIST']}"
lightning.Trainer(**config["trainer"]).fit()
