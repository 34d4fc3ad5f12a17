import os

import jax
from hostlist import expand_hostlist

coordinator = expand_hostlist(os.environ["SLURM_JOB_NODELIST"])[0]
jax.distributed.initialize(
    coordinator_address=f"{coordinator}:1234",
    num_processes=int(os.environ["SLURM_NTASKS"]),
    process_id=int(os.environ["SLURM_PROCID"]),
)
print(jax.devices())
