# SPDX-License-Identifier: Apache-2.0
"""A valid configuration can still be one that does not work."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepguard.config import Config, Resume
from stepguard.doctor.configuration import check_configuration
from stepguard.doctor.result import Level


def test_the_defaults_are_well() -> None:
    (result,) = check_configuration(Config())
    assert (result.level, "every key has its default" in result.found) == (Level.OK, True)


@pytest.mark.parametrize(
    ("resume", "level", "said"),
    [
        (Resume(heartbeat_s=3.0), Level.WARN, "healthy nodes count as silent"),
        (Resume(probe_s=5.0), Level.WARN, "noticed later"),
        (Resume(max_resumes=0), Level.WARN, "no step is ever resumed"),
        (Resume(strategies=()), Level.WARN, "no step is ever resumed"),
        (Resume(fault_file="/tmp/fault"), Level.WARN, "/tmp may be written by everybody"),
    ],
)
def test_what_does_not_go_together_is_said(resume: Resume, level: Level, said: str) -> None:
    (result,) = check_configuration(Config(resume=resume))
    assert result.level is level
    assert said in result.found


def test_a_fault_file_where_others_may_write_is_told(tmp_path: Path, prefix: Path) -> None:
    (prefix / "open").mkdir()
    (prefix / "open").chmod(0o777)
    (result,) = check_configuration(Config(resume=Resume(fault_file=str(prefix / "open/deeper/fault"))))
    assert (result.level, "may be written by everybody" in result.found) == (Level.WARN, True)


def test_a_file_that_users_cannot_read_fails(prefix: Path) -> None:
    path = prefix / "stepguard.toml"
    path.touch(mode=0o600)
    path.chmod(0o600)
    (result,) = check_configuration(Config(path=path))
    assert (result.level, "may not be read by others" in result.found) == (Level.FAIL, True)
    path.chmod(0o666)
    (result,) = check_configuration(Config(path=path))
    assert (result.level, "may be written by everybody" in result.found) == (Level.WARN, True)
    path.chmod(0o644)
    (result,) = check_configuration(Config(path=path))
    assert (result.level, result.found) == (Level.OK, f"{path} is valid")
