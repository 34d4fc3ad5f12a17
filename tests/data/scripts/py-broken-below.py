import os

rank = int(os.environ["SLURM_PROCID"])
os.environ["MASTER_ADDR"] = os.environ["SLURM_JOB_NODELIST"].split(",")[0]
print "rank", rank
