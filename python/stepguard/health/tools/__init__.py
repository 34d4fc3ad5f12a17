# SPDX-License-Identifier: Apache-2.0
"""What the tools print that people paste into tickets, and what it says of each device.

kind                one output of one tool: how it is known, who reads it; kinds has all of them
conclusion          from the devices, remarks and the command's exit status to a judgement
nvidia_gpu          what is known of a GPU
nvidia_rules        how it is: thresholds with their sources, for NVML's probe too
nvidia_readings     the names of readings in all forms of nvidia-smi
"""
