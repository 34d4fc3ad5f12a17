# SPDX-License-Identifier: Apache-2.0
"""How Slurm's commands are run, where no cluster is needed to see it."""

from __future__ import annotations

import pytest

from stepguard.errors import SlurmUnreachable
from stepguard.slurm.commands import Commands, command_environment


def test_environment_of_the_commands_is_clean() -> None:
    environment = {
        "PATH": "/usr/bin",
        "SLURM_CONF": "/etc/slurm/slurm.conf",
        "SLURM_JOB_ID": "71",
        "SLURM_JOBID": "71",
        "SLURM_CLUSTERS": "other",
        "SLURM_TIME_FORMAT": "relative",
        "SLURM_BITSTR_LEN": "1",
        "SQUEUE_FORMAT": "%i",
        "SCONTROL_ALL": "1",
        "LC_ALL": "de_DE.UTF-8",
        "TZ": "Asia/Tokyo",
    }
    assert command_environment(environment) == {
        "PATH": "/usr/bin",
        "SLURM_CONF": "/etc/slurm/slurm.conf",
        "LC_ALL": "C",
        "TZ": "UTC",
    }


def test_missing_command_is_unreachable_slurm() -> None:
    client = Commands(environment={"PATH": "/nonexistent"})
    with pytest.raises(SlurmUnreachable, match="scontrol"):
        client.job("1")
    assert client.step_accounting("1", "0") is None
    assert client.controller_answers() is False
