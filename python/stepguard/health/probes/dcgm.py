# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's Data Center GPU Manager: what its own watches found (`dcgmi health`).

Watches are set by the site (`dcgmi health -s a`): some take a minute of samples before they say anything. Policies are
not asked for: dcgmi waits for what violates one, and the kernel's log tells the same.
"""

from __future__ import annotations

from stepguard.errors import ProcessError
from stepguard.health.model import Report, Status
from stepguard.health.probes import program
from stepguard.health.probes.report import conclude, of_judgement, unknown
from stepguard.health.probes.settings import Settings
from stepguard.health.tools import dcgm_health
from stepguard.health.tools.conclusion import printable

NAME = "dcgm"

_SHARE_TO_RUN = 0.8


def run(settings: Settings) -> Report:
    """Judges what `dcgmi health` prints."""
    tool = program.find("dcgmi")
    if tool is None:
        return Report(NAME, Status.OK, "DCGM is not installed")
    timeout_s = settings.deadline_s * _SHARE_TO_RUN
    try:
        output = program.run([tool, "health", "-c", "-j"], timeout_s)
    except ProcessError as error:
        return unknown(NAME, str(error))
    if output.status is None:
        return unknown(NAME, f"dcgmi gives no answer within {timeout_s:g} s: nv-hostengine, or the driver, hangs")
    if not dcgm_health.KIND.recognizes(output.text):
        first = next((line for line in output.text.splitlines() if line.strip()), "nothing")
        return unknown(NAME, f"dcgmi ended with {output.status}, and said: {printable(first.strip(), 200)}")
    said = dcgm_health.KIND.read(output.text, output.status)
    return conclude(NAME, of_judgement(said, "dcgm-health"), said.reason, {"devices": len(said.devices)})
