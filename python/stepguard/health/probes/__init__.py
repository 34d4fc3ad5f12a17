# SPDX-License-Identifier: Apache-2.0
"""Looks at one source of a node's health each, in a child process of its own: a driver that hangs hangs only that.

A probe is a module with `run(settings: Settings) -> Report`, which stepguard.health.probe_child alone calls. table
names them all; docs/add-a-probe.md tells how there comes another.

settings    what a probe is told                     document  a report as JSON, between child and parent
report      from findings to a report                here      is there anything to look at? asked before a child starts
files       sysfs and procfs, read and never written; pci: what is on the bus
program     other people's tools, bounded            memory    what a probe remembers until its next run

nvml        NVIDIA GPUs: nvml_reading reads one by nvml_numbers, nvml_judging says what of it is a finding
nvidia_smi  the same where NVML cannot be loaded     dcgm      what NVIDIA's own watches found
amd         AMD's accelerators                       neuron    AWS Inferentia and Trainium
infiniband  RDMA ports and EFA                       host      memory, file systems, processes, services, mounts
stress      load, for those who ask for it
"""
