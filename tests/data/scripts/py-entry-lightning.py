import os

import lightning as L

from model import Data, Model

os.environ.setdefault("NCCL_NSOCKS_PERTHREAD", "4")
local_rank = int(os.environ["SLURM_LOCALID"])
trainer = L.Trainer(
    accelerator="gpu",
    devices=8,
    num_nodes=int(os.environ["SLURM_NNODES"]),
    strategy="fsdp",
)
trainer.fit(Model(local_rank), Data())
