#!/usr/bin/env python3
#SBATCH --nodes=3
#SBATCH --exclusive
#SBATCH --auto-resume=1
import subprocess

subprocess.run(["srun", "--nodes=2", "./train"], check=True)
#SBATCH --time=60
