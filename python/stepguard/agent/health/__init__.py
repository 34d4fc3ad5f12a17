# SPDX-License-Identifier: Apache-2.0
"""The node's health as its agent keeps it: it sees, judges by stepguard.health's policy, and reacts.

keeper         what the agent's loop knows of all this; the verdict, of the node and of a job
kernel_log     /dev/kmsg, journald or a log file, each line once; kernel_events: what its lines tell
gpu_events     NVML's event set, in a process that may hang; once: an XID that both tell of is one
cycle          the probes, every so often and when they are asked for
event_log      what kernel and NVML have told of, for the jobs that ran then; job_health: what a record keeps of one
job_gpus       which GPUs a job has; gpu_count: how many the node has in Slurm
reaction       what is done to the node in Slurm, and when; asker: the process that asks slurmctld
offences       which jobs its GPUs have failed; telling: what of all this the cluster is told
state          what is kept over a restart
"""
