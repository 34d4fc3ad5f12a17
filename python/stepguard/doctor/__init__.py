# SPDX-License-Identifier: Apache-2.0
"""Is this installation whole, and does the cluster let it work? What to change, if not.

examine          all checks, in order; the only module that knows the order
result           what a check says
cluster          is there a Slurm, and which form talks with it
plugstack        stepguard's line in plugstack.conf; plugstack_file: reading it as Slurm does
configuration    the administrator's file
interpreter      PREFIX/venv, the bridge, libpython
plugin           PREFIX/lib/slurm/stepguard.so; elf: reading it without loading it; files: who may read and change it
sharing          is it on every host
option           what srun itself says
strategies       each strategy against the cluster; detection: how soon a dead node is noticed
hooks            what is recorded of jobs: slurmd's part; capture: slurmstepd's
agent            who takes it in on this node; archive: where it ends up
job              the job that we are in
"""
