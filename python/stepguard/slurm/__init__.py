# SPDX-License-Identifier: Apache-2.0
"""All that talks with Slurm: one protocol, two forms.

protocol         what is asked of Slurm, whoever answers; records: the answers
commands         the form over scontrol, scancel, squeue, sacct; text, json_form: reading what they print
pyslurm_form     the form over pyslurm
hostlist         Slurm's host lists; gres: how many GPUs a node's GRES are
srun_arguments   srun's command line, read as srun reads it; srun_options: the options, as data
environment      the SLURM_* variables of the next attempt
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # host lists and options are read without a client
    from stepguard.config import Slurm
    from stepguard.slurm.protocol import SlurmClient


def connect(config: Slurm) -> SlurmClient:
    """A client of the form that `choice` names."""
    if choice(config)[0] == "pyslurm":
        from stepguard.slurm.pyslurm_form import PyslurmForm

        return PyslurmForm(config.timeout_s, config.output)
    from stepguard.slurm.commands import Commands

    return Commands(config.timeout_s, config.output)


def choice(config: Slurm) -> tuple[str, str]:
    """Which form is used, "commands" or "pyslurm", and why.

    pyslurm where [slurm] form allows it, it imports, and its release (major.minor) is the cluster's; else the commands,
    also where form = "pyslurm": a step that runs is worth more than the form that was asked for. Never raises.
    """
    if config.form == "commands":
        return "commands", "[slurm] form = commands"
    from importlib.util import find_spec

    if find_spec("pyslurm") is None:
        return "commands", "pyslurm is not installed"
    from stepguard.errors import SlurmError
    from stepguard.slurm.commands import Commands

    try:
        from stepguard.slurm.pyslurm_form import RELEASE
    except ImportError as error:
        return "commands", f"pyslurm does not import: {error}"
    try:
        release = Commands(config.timeout_s).config().release[:2]
    except SlurmError as error:
        return "commands", f"the cluster's release is unknown: {error}"
    theirs, ours = (".".join(f"{number:02}" for number in numbers) for numbers in (release, RELEASE))
    if theirs != ours:
        return "commands", f"pyslurm is for Slurm {ours}, and the cluster runs {theirs}"
    return "pyslurm", f"pyslurm is for Slurm {ours}, as the cluster"
