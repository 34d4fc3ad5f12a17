import os

import torch

gpus = torch.cuda.device_count()
world_size = int(os.environ["SLURM_JOB_NUM_NODES"]) * gpus
rank = int(os.environ["SLURM_PROCID"])
torch.distributed.init_process_group("nccl", init_method="env://", world_size=world_size, rank=rank)
