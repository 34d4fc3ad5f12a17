import os
import subprocess

rank = os.environ["SLURM_PROCID"]
head = os.environ["SLURM_JOB_NODELIST"].split(",")[0]
print("job began on", head)
head = subprocess.check_output(["stepguard", "nodes", "--first"], text=True).strip()
os.environ["MASTER_ADDR"] = head
nodes = int(os.environ["SLURM_NNODES"])
nodes = int(os.environ["SLURM_STEP_NUM_NODES"])
subprocess.run(["torchrun", f"--nnodes={nodes}", f"--master_addr={head}", "train.py"], check=True)
os.environ["SLURM_NNODES"] = subprocess.getoutput("stepguard nodes --count")
os.execvp("torchrun", ["torchrun", "--nnodes", os.environ["SLURM_NNODES"], "eval.py"])
