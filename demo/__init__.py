# SPDX-License-Identifier: Apache-2.0
"""`make demo`: a training job on a real Slurm cluster loses a node and goes on.

__main__     the command line, signals and the exit status
stories      the five stories: what goes wrong, and how it must end
stage        what a story plays on: the lab, the job, and one loop that shows all that happens
job          the batch script, as a user would write it, its submission and its output
training     what the training's output says
states       what Slurm says of nodes and job
phases       where the time between fault and training again went
plain_slurm  what Slurm does without stepguard
screen       the lines on the terminal
train.py     the training itself; runs on the lab's hosts and is imported by nothing
"""
