# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's GPUs by nvidia-smi, where NVML cannot be loaded into a process of ours: its readings, or why it has none."""

from __future__ import annotations

import ctypes

from stepguard.errors import ProcessError
from stepguard.health.model import Action, Finding, Report, Status
from stepguard.health.probes import pci, program
from stepguard.health.probes.files import Tree
from stepguard.health.probes.report import conclude, of_judgement, unknown
from stepguard.health.probes.settings import Settings
from stepguard.health.tools import nvidia_rules, nvidia_smi_table, nvidia_smi_xml

NAME = "nvidia-smi"

_NVML = "libnvidia-ml.so.1"
_SHARE_TO_RUN = 0.8


def run(settings: Settings) -> Report:
    """Judges what `nvidia-smi -q -x` prints. Where NVML can be loaded its probe looks, and this one does not."""
    if _nvml_loads():
        return Report(NAME, Status.OK, "NVML can be loaded, and its probe looks")
    count = len(pci.nvidia_gpus(Tree(settings.root)))
    tool = program.find("nvidia-smi")
    if tool is None and not count:
        return Report(NAME, Status.OK, "no NVIDIA GPU here")
    if tool is None:
        evidence = f"{count} NVIDIA GPUs on the PCI bus, and neither NVML nor nvidia-smi is installed"
        return conclude(NAME, [Finding(Status.UNKNOWN, "", "driver", Action.CHECK, evidence)], "")
    timeout_s = settings.deadline_s * _SHARE_TO_RUN
    try:
        output = program.run([tool, "-q", "-x"], timeout_s)
    except ProcessError as error:
        return unknown(NAME, str(error))
    if output.status is None:
        return unknown(NAME, f"nvidia-smi gives no answer within {timeout_s:g} s: the driver hangs")
    return _report(output, count)


def _nvml_loads() -> bool:
    try:
        ctypes.CDLL(_NVML)
    except OSError:
        return False
    return True


def _report(output: program.Output, on_bus: int) -> Report:
    text = output.text
    # Where it has no readings it prints no XML.
    kind = nvidia_smi_xml.KIND if nvidia_smi_xml.KIND.recognizes(text) else nvidia_smi_table.KIND
    said = kind.read(text, output.status)
    gpus = nvidia_smi_xml.gpus(text)
    findings = [finding for gpu in gpus for finding in nvidia_rules.findings(gpu)]
    known = {finding.device for finding in findings}
    findings += [one for one in of_judgement(said, NAME) if not one.device or one.device not in known]
    if len(gpus) < on_bus and said.status is Status.OK:
        evidence = f"nvidia-smi tells of {len(gpus)} GPUs, {on_bus} are on the PCI bus"
        findings.append(Finding(Status.FAIL, "", "gpu-count", Action.CHECK, evidence))
    return conclude(NAME, findings, f"{len(gpus)} GPUs, no finding", {"count": len(gpus)})
