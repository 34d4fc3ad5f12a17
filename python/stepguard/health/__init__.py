# SPDX-License-Identifier: Apache-2.0
"""The health of a node: what its devices and its kernel say, and what is to be done about it.

model         what all here speak of: Event, Finding, Report, Judgement, Status, FaultClass, Action
catalogue     data: what an XID, an SXID or a DCGM error means and asks for, with sources
kernel        lines of the kernel's log → events
tools         what nvidia-smi, dcgmi, fi_info, ibstat and the Neuron tools print → judgements
explain       which of these a pasted text is, and what it says: `stepguard health explain`

probes        each looks at one source of a node's health
probing       has one run with a deadline, in a child (probe_child) that the forkserver forks off (probe_request)
gpu_events_child  the process that NVML tells of events
gpus          one name for a GPU that has several
snapshot      how a node was at one moment; difference: what happened between two (difference_table)

repetition    which lines are of one crash, and whether crashes repeat
occurrences   events over time; presence: findings over time; resets: GPUs that were reset in between
policy        from all that was seen to the node's verdict (verdict); discretion: what of it all may know
marking       what is done to the node in Slurm; breaker: to how many; reacting: by the agent's process
by_hand       what `stepguard node` does; offenders: nodes whose GPUs fail job after job

The agent puts them to use: stepguard.agent.health.
"""
