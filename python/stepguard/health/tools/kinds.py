# SPDX-License-Identifier: Apache-2.0
"""All kinds of output that are known."""

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
