import subprocess
import sys

for seed in range(4):
    subprocess.run(["sbatch", "--auto-resume=1", "--nodes=4", "train.sbatch", str(seed)], check=True)
sys.exit(0)
