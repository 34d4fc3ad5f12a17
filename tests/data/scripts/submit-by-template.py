#!/usr/bin/env python3
import subprocess
from string import Template

JOB = Template("""#!/bin/bash
#SBATCH --nodes=$nodes
#SBATCH --exclusive
export MASTER_ADDR=$$(scontrol show hostnames $$SLURM_JOB_NODELIST | head -n1)
srun --auto-resume=1 python train.py
""")
for nodes in (2, 4):
    subprocess.run(["sbatch"], input=JOB.substitute(nodes=nodes), text=True, check=True)
