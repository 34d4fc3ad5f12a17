#!/usr/bin/env python3
import subprocess
from pathlib import Path

TEMPLATE = """#!/bin/bash
#SBATCH --nodes=4
#SBATCH --exclusive
#SBATCH --auto-resume=1
srun ./train.sh
"""

script = Path("job.sbatch")
script.write_text(TEMPLATE)
subprocess.run(["sbatch", str(script)], check=True)
