# SPDX-License-Identifier: Apache-2.0
"""Which form talks with Slurm."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from stepguard.config import Slurm
from stepguard.slurm import choice, connect
from stepguard.slurm.commands import Commands


def test_commands_when_configured() -> None:
    assert choice(Slurm(form="commands")) == ("commands", "[slurm] form = commands")


@pytest.mark.skipif(importlib.util.find_spec("pyslurm") is not None, reason="pyslurm is installed")
@pytest.mark.parametrize("form", ["auto", "pyslurm"])
def test_commands_without_pyslurm(form: str) -> None:
    assert choice(Slurm(form=form)) == ("commands", "pyslurm is not installed")
    assert type(connect(Slurm(form=form))) is Commands


@pytest.mark.skipif(importlib.util.find_spec("pyslurm") is not None, reason="pyslurm is installed")
def test_commands_when_pyslurm_does_not_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyslurm.py").write_text("raise ImportError('libslurmfull-25.11.so: no such file')")
    monkeypatch.syspath_prepend(str(tmp_path))
    form, why = choice(Slurm())
    assert (form, why) == ("commands", "pyslurm does not import: libslurmfull-25.11.so: no such file")
