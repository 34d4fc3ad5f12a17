# SPDX-License-Identifier: Apache-2.0
"""A node's files, and a PATH without its tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stepguard.health.probes import program
from unit.health.probes.trees import Tree, put_tool


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "root")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts a tool into the PATH, in which there is nothing else but what scripts need."""
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    monkeypatch.setattr(program, "_MORE", ())
    return lambda name, script: put_tool(place, name, script)
