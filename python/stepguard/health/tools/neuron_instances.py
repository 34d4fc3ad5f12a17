# SPDX-License-Identifier: Apache-2.0
"""How many Neuron devices an instance of AWS has (Neuron documentation, "Instance sizes")."""

from __future__ import annotations

from stepguard.health.model import Status
from stepguard.health.tools.conclusion import Remark

_DEVICES = {
    "inf1.xlarge": 1,
    "inf1.2xlarge": 1,
    "inf1.6xlarge": 4,
    "inf1.24xlarge": 16,
    "inf2.xlarge": 1,
    "inf2.8xlarge": 1,
    "inf2.24xlarge": 6,
    "inf2.48xlarge": 12,
    "trn1.2xlarge": 1,
    "trn1.32xlarge": 16,
    "trn1n.32xlarge": 16,
    "trn2.3xlarge": 1,
    "trn2.48xlarge": 16,
    "trn2n.48xlarge": 16,
    "trn2u.48xlarge": 16,
}


def missing(instance_type: str, seen: int) -> list[Remark]:
    """What there is to say where the instance has more devices than were seen."""
    expected = _DEVICES.get(instance_type.strip())
    if expected is None or seen >= expected:
        return []
    return [Remark(Status.FAIL, f"{seen} Neuron devices, {instance_type.strip()} has {expected}")]
