import os
rank = int(os.environ["SLURM_PROCID"])
print "rank", rank
