# SPDX-License-Identifier: Apache-2.0
"""What the tools print that people paste into tickets, and what it says of each device.

kind                one output of one tool: how it is known, who reads it
conclusion          from the devices, remarks and the command's exit status to a judgement
nvidia_gpu          what is known of a GPU
nvidia_rules        how it is: thresholds with their sources, for NVML's probe too
nvidia_readings     the names of readings in all forms of nvidia-smi
"""

from __future__ import annotations

from stepguard.health.tools import (
    dcgm_diag,
    dcgm_health,
    fi_info,
    ibstat,
    ibv_devinfo,
    neuron_ls,
    neuron_monitor,
    nvidia_smi_csv,
    nvidia_smi_query,
    nvidia_smi_table,
    nvidia_smi_xml,
)
from stepguard.health.tools.kind import Kind

# A text is of at most one of them.
KINDS: tuple[Kind, ...] = (
    nvidia_smi_query.KIND,
    nvidia_smi_xml.KIND,
    nvidia_smi_csv.KIND,
    nvidia_smi_table.KIND,
    dcgm_diag.KIND,
    dcgm_health.KIND,
    fi_info.KIND,
    ibstat.KIND,
    ibv_devinfo.KIND,
    neuron_ls.KIND,
    neuron_monitor.KIND,
)
