# SPDX-License-Identifier: Apache-2.0
"""All that talks with Slurm: one protocol, two forms.

protocol         what is asked of Slurm, whoever answers; records: the answers
commands         the form over scontrol, scancel, squeue, sacct; text, json_form: reading what they print
pyslurm_form     the form over pyslurm
hostlist         Slurm's host lists
srun_arguments   srun's command line, read as srun reads it
environment      the SLURM_* variables of the next attempt
"""

from __future__ import annotations

from stepguard.config import Slurm
from stepguard.slurm.protocol import SlurmClient


def connect(config: Slurm) -> SlurmClient:
    """A client of the form that the configuration and the cluster allow."""
    from stepguard.slurm.commands import Commands

    return Commands(config.timeout_s, config.output)
