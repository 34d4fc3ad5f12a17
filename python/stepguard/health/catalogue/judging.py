# SPDX-License-Identifier: Apache-2.0
"""From class and action to a status."""

from __future__ import annotations

from stepguard.health.model import Action, FaultClass, Status

_HARDWARE = {FaultClass.HARDWARE_REPLACE, FaultClass.HARDWARE_RESET, FaultClass.REBOOT}
_GRAVE = {Action.RESET_GPU, Action.REBOOT, Action.REPLACE}


def status_of(fault_class: FaultClass, action: Action) -> Status:
    """How a device or a node is of which only this is known.

    Broken hardware fails, and so does whatever asks for a reset, a reboot or a replacement; the rest warns. What can be
    ignored is OK, but a code that somebody should look at (unknown, unused) is not: nobody can tell. Hardware that
    needs nothing any more, because the driver has said so by an XID 154, warns.
    """
    if action in _GRAVE:
        return Status.FAIL
    if fault_class in _HARDWARE:
        return Status.WARN if action is Action.NONE else Status.FAIL
    if fault_class is FaultClass.IGNORE:
        return Status.OK if action is Action.NONE else Status.UNKNOWN
    return Status.WARN
