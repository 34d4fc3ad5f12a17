# SPDX-License-Identifier: Apache-2.0
"""`make demo`: a training job on a real Slurm cluster loses a node and goes on.

__main__     the command line, signals and the exit status
stories      the six stories: what goes wrong, and how it must end
stage        what a story plays on: the lab, the job, and one loop that shows all that happens
job          the batch script, as a user would write it, its submission and its output
training     what the trainings' output says
states       what Slurm says of nodes and job
phases       where the time between fault and training again went
plain_slurm  what Slurm does without stepguard
record       the job's record, shown at the end
screen       the lines on the terminal
train.py, train_torch.py   the trainings themselves; they run on the lab's hosts and are imported by nothing
"""
