import os
import sys

rank = int(os.environ["SLURM_PROCID"])
sys.argv += ["--started-on", os.environ["SLURM_JOB_NODELIST"]]
print(sys.argv[1:])
