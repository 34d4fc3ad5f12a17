# SPDX-License-Identifier: Apache-2.0
"""What the agent takes from a message, whoever wrote it."""

from __future__ import annotations

import time

import pytest

from stepguard.agent.message import read
from stepguard.records import wire
from stepguard.records.wire import MalformedMessage
from unit.agent.agent_process import environment, fields


def test_slurmds_environment_says_what_the_fields_do_not() -> None:
    words = environment(SLURM_JOB_ID="7", SLURM_JOB_UID="1000", SLURM_JOB_GID="100", SLURM_JOB_RESTART_COUNT="2")
    message = read(fields("prolog", environment=words))
    assert (message.job_id, message.uid, message.gid, message.restarts) == (7, 1000, 100, 2)
    assert read(fields("epilog", 8, uid=5, environment=words)).uid == 5


def test_a_jobs_own_environment_says_nothing_of_its_owner() -> None:
    words = environment(SLURM_JOB_UID="0", SLURM_JOB_ID="9", SLURM_RESTART_COUNT="1")
    message = read(fields("batch", 7, environment=words))
    assert (message.job_id, message.uid, message.restarts) == (7, None, 1)
    with pytest.raises(MalformedMessage, match="names no job"):
        read(fields("batch", environment=words))


@pytest.mark.parametrize("count", ["", "-1", "x", "99999999999", "4294967296"])
def test_a_restart_count_that_is_none(count: str) -> None:
    assert read(fields("batch", 7, environment=environment(SLURM_RESTART_COUNT=count))).restarts is None


def test_variables_are_those_of_getenv() -> None:
    words = b"XA=0\0A=1\0A=2\0B=x=y\nA=3\0C\0A_B=4\0D=last"
    names = ("A", "B", "C", "D", "E")
    assert wire.variables(words, *names) == {"A": "1", "B": "x=y\nA=3", "D": "last"}
    assert wire.variables(words, *names) == {
        name: text for name, text in wire.environment(words).items() if name in names
    }


def test_the_largest_environment_costs_no_time() -> None:
    message = fields("batch", 7, environment=b"a=\0" * (1 << 18))
    begin_s = time.thread_time()
    read(message)
    assert time.thread_time() - begin_s < 1
