#!/usr/bin/env python3
import os

import hydra
import lightning


@hydra.main(config_path="conf", config_name="base")
def main(cfg):
    cfg.trainer.num_nodes = int(os.environ["SLURM_NNODES"])
    cfg.run.description = os.environ["SLURM_JOB_NODELIST"]
    cfg.rank = int(os.environ["SLURM_PROCID"])
    lightning.Trainer(**cfg.trainer).fit()


main()
