# SPDX-License-Identifier: Apache-2.0
"""`make bench`: what stepguard costs, measured on real Slurm clusters of the lab against the budgets of its design.

__main__      the command line, the table, the JSON
budgets       the budgets           figures  medians, ratios, differences       table  rows for people and for programs
environment   where it was measured site     what is measured: the product, labs
paired        many interleaved runs of commands; programs/rounds.py does them on a host
job           a guarded step that meets a fault; programs/ring of tests/live  journals  what it leaves

instructions  a user without the option: client instructions            wall   the same: wall time
submission    sbatch's look at its job script
start         the start of a guarded step, and where its time goes      scale  a hundred nodes
recovery      from the fault to the next attempt, phase by phase       hooks  prolog and epilog
agent         what a node's agent takes, and how much it takes in
"""
