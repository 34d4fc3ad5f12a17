import os
rank = int(os.environ["SLURM_PROCID"])
host = os.environ["SLURM_NODELIST"].split(",")[0]
os.environ["MASTER_ADDR"] = host
os.execvp("python", ["python", "train.py"])
