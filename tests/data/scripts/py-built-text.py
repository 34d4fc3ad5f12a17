import os
import shlex
import subprocess
from string import Template

rank = os.environ["SLURM_PROCID"]
os.system("torchrun --nnodes %s --node-rank %s train.py" % (os.environ["SLURM_NNODES"], rank))
os.system("torchrun --nnodes {n} train.py".format(n=os.environ["SLURM_NNODES"]))
subprocess.run(f"torchrun --nnodes {os.environ['SLURM_NNODES']} train.py".split(), check=True)
subprocess.run(shlex.split("torchrun --nnodes " + os.environ["SLURM_NNODES"]), check=True)
subprocess.run(" ".join(["torchrun", "--nnodes", os.environ["SLURM_NNODES"]]), shell=True, check=True)
os.system(Template("torchrun --nnodes $n train.py").substitute(n=os.environ["SLURM_NNODES"]))
os.system("mkdir -p runs/{}".format(os.environ["SLURM_NNODES"]))
