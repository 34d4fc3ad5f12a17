# SPDX-License-Identifier: Apache-2.0
"""The plugin's line in plugstack.conf: its arguments, and what happens when it stands there twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from shim.built import Shim
from stepguard.doctor.elf import Library

JOB = {"SLURM_JOB_ID": "71"}
INHERITED = "SLURM_SPANK__SLURM_SPANK_OPTION_stepguard_auto_resume"


def test_configuration_of_the_administrator(shim: Shim) -> None:
    words = ["srun", "--auto-resume=1", "true"]
    line = "optional {plugin} config=/etc/site.toml"
    assert shim.run(words, env=JOB, plugstack=line).supervised["env"]["STEPGUARD_CONFIG"] == "/etc/site.toml"
    mine = {**JOB, "STEPGUARD_CONFIG": "/home/me.toml"}
    assert shim.run(words, env=mine, plugstack=line).supervised["env"]["STEPGUARD_CONFIG"] == "/home/me.toml"


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("misplaced=Warn", "misplaced=Warn: not allowed, reject is used; known: misplaced=reject|warn"),
        ("lint=on", "lint=on: not allowed, warn is used"),
        ("on_broken=", "on_broken=: not allowed, run is used"),
        ("misplaced", "misplaced=: not allowed, reject is used"),
        ("colour=red", "unknown argument colour=red: ignored; known: misplaced="),
        ("config=etc/site.toml", "config=etc/site.toml: an absolute path is needed"),
        ("config", "unknown argument config: ignored"),
    ],
)
def test_bad_arguments_in_plugstack_are_named_and_fail_nothing(shim: Shim, argument: str, said: str) -> None:
    outcome = shim.run(["srun", "true"], plugstack="optional {plugin} " + argument)
    assert len(outcome.lines) == 1
    assert outcome.lines[0].startswith(f"error: stepguard: plugstack.conf: {said}")
    assert outcome.plain["registered"] == "1"


def test_good_arguments_are_silent(shim: Shim) -> None:
    line = "optional {plugin} misplaced=warn lint=reject on_broken=refuse config=/a.toml"
    assert shim.run(["srun", "true"], plugstack=line).stderr == ""


def test_listed_twice(shim: Shim) -> None:
    plugstack = "optional {plugin}\noptional {plugin} misplaced=warn"
    assert shim.run(["srun", "true"], plugstack=plugstack).plain["registered"] == "1"
    state = shim.run(["srun", "--auto-resume=1", "true"], env=JOB, plugstack=plugstack).supervised
    assert state["argv"][4:] == [b"srun", b"true"]
    outcome = shim.run(["srun", "true"], env={**JOB, INHERITED: "1"}, plugstack=plugstack)
    assert len(outcome.lines) == 1
    het = shim.run(["srun", "true", ":", "--auto-resume=1", "true"], env=JOB, plugstack=plugstack)
    assert len(het.lines) == 1
    assert "several components" in het.lines[0]


def test_doctor_finds_what_it_was_built_for(shim: Shim) -> None:
    assert Library.read(shim.plugin).constant_before("/lib/stepguard/bridge.so") == str(shim.prefix)


def test_second_copy_of_the_file(shim: Shim, tmp_path: Path) -> None:
    shutil.copy(shim.plugin, tmp_path / "copy.so")
    plugstack = f"optional {{plugin}}\noptional {tmp_path}/copy.so"
    assert shim.run(["srun", "--auto-resume=1", "true"], env=JOB, plugstack=plugstack).supervised
    assert shim.run(["srun", "--auto-resume=0", "true"], env=JOB, plugstack=plugstack).stderr == ""
