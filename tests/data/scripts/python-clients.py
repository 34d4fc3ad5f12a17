#!/usr/bin/env python3
"""Reaches services on the job's nodes."""

import os
import subprocess

import mlflow
from omegaconf import OmegaConf
from openai import OpenAI
from pymongo import MongoClient

from trainer import Trainer

rank = int(os.environ["SLURM_PROCID"])
hosts = subprocess.check_output(["scontrol", "show", "hostnames"], text=True).split()
last = subprocess.check_output(["scontrol", "show", "hostnames"], text=True).split()[-1]
seen = os.environ["SLURM_JOB_NODELIST"]
mlflow.set_tag("nodes", seen)
mlflow.start_run(config={"nodes": seen})
store = MongoClient(hosts[0])
llm = OpenAI(base_url=f"http://{last}:8000/v1")
cfg = OmegaConf.create({"trainer": {"num_nodes": int(os.environ["SLURM_NNODES"]), "devices": 8}})
Trainer(**cfg.trainer, config={"started_on": seen}).fit(store, llm)
with open("hostfile", "w") as out:
    out.write("\n".join(os.environ["SLURM_NODELIST"].split(",")))
