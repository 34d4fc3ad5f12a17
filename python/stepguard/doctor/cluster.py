# SPDX-License-Identifier: Apache-2.0
"""Is there a cluster, does it answer, and which form of stepguard.slurm talks with it?"""

from __future__ import annotations

from stepguard.doctor.plugin import numbers
from stepguard.doctor.result import Result, fail, ok, unknown
from stepguard.slurm.installation import names_no_cluster

CHECK = "slurm"
_OLDEST = (22, 5)


def no_client(said: str) -> Result:
    """srun is missing, or finds no cluster."""
    if names_no_cluster(said):
        return unknown(CHECK, f"this host belongs to no cluster ({said})", "run this where srun works")
    return fail(CHECK, f"srun does not work: {said}", "run `srun --version`")


def no_controller(said: str) -> Result:
    """srun is there, but slurmctld says nothing."""
    return fail(CHECK, f"slurmctld gives no answer: {said}", "run `scontrol ping`")


def check_releases(client: tuple[int, ...], controller: tuple[int, ...]) -> Result:
    """Slurm as it is here and on the controller."""
    shown = f"Slurm {numbers(client)}"
    if client[:2] != controller[:2]:
        shown += f" here, {numbers(controller)} on the controller"
    if client[:2] < _OLDEST:
        return fail(CHECK, f"{shown} is older than stepguard knows", f"Slurm {numbers(_OLDEST)} or newer is needed")
    return ok(CHECK, shown)


def check_form(choice: tuple[str, str]) -> Result:
    """The form that stepguard.slurm.choice names, and its reason."""
    form, why = choice
    return ok("form", f"{form}: {why}")
