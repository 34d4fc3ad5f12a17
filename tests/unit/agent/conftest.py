# SPDX-License-Identifier: Apache-2.0
"""Agents are made in a directory that every user can enter, and do not outlive their test."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unit.agent.agent_process import AgentProcess

_HOOKS = Path(__file__).parents[3] / "hooks"


@pytest.fixture(scope="session")
def libexec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with read_as."""
    directory = tmp_path_factory.mktemp("libexec")
    subprocess.run(["make", "-s", "-C", _HOOKS, f"OUT={directory}", f"{directory}/read_as"], check=True)
    return directory


@pytest.fixture
def make_agent(libexec: Path) -> Iterator[Callable[..., AgentProcess]]:
    if os.geteuid() != 0:
        pytest.skip("the agent must be root")
    directory = Path(tempfile.mkdtemp(prefix="stepguard-agent-"))
    directory.chmod(0o755)
    made: list[AgentProcess] = []

    def make(*settings: str, env: dict[str, str] | None = None, name: str = "", **more: str) -> AgentProcess:
        place = directory / name
        place.mkdir(exist_ok=True)
        made.append(AgentProcess(place, *settings, env={"STEPGUARD_LIBEXEC": str(libexec), **(env or {})}, **more))
        return made[-1]

    yield make
    for agent in made:
        agent.stop()
    shutil.rmtree(directory)


@pytest.fixture
def agent(make_agent: Callable[..., AgentProcess]) -> AgentProcess:
    return make_agent().start()
