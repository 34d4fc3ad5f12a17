# SPDX-License-Identifier: Apache-2.0
"""`stepguard agent --check` refuses a [health] with which the agent would not start, and shows the one in effect."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stepguard.agent.check import local_problems
from stepguard.config import load
from unit.agent.agent_process import AgentProcess

Make = Callable[..., AgentProcess]


def check(agent: AgentProcess) -> subprocess.CompletedProcess[str]:
    return subprocess.run(agent.argv("--check"), capture_output=True, text=True, timeout=60)


@pytest.fixture
def rows(make_agent: Make) -> Path:
    """The site's catalogue."""
    return make_agent().directory / "rows.toml"


@pytest.mark.parametrize(
    ("line", "content", "said"),
    [
        ('probes = ["nvml", "gpu"]', None, "no probe 'gpu': [health] probes: there are: all, nvml"),
        ('catalogue = "{0}"', None, "cannot read the site's catalogue: [health] catalogue: {0}: No such file"),
        ('catalogue = "{0}"', "= 1", "not TOML: [health] catalogue: {0}: correct it"),
        ('catalogue = "{0}"', "[xidd.79]\naction = 'none'", "unknown source 'xidd': [health] catalogue: {0}: known: "),
        ('catalogue = "{0}"', "[xid.79]\naction = 'nothing'", "[health] catalogue: {0} xid 79"),
    ],
)
def test_what_the_agent_would_not_start_with(
    make_agent: Make, rows: Path, line: str, content: str | None, said: str
) -> None:
    if content is not None:
        rows.write_text(content)
    agent = make_agent(health=line.format(rows))
    done = check(agent)
    assert (done.returncode, said.format(rows) in done.stderr) == (78, True), done.stderr
    assert [one for one in local_problems(load(agent.config)) if said.format(rows) in one], "the doctor tells it too"
    started = subprocess.run(agent.argv(), capture_output=True, text=True, timeout=60)
    assert (started.returncode, said.format(rows) in started.stderr) == (78, True), started.stderr


def test_it_shows_what_is_in_effect(make_agent: Make, rows: Path) -> None:
    rows.write_text('[xid.63]\naction = "check"\n')
    lines = [
        'services = ["slurmd"]',
        'mounts = ["/home"]',
        'ports = ["mlx5_0/1"]',
        "zombies = 9",
        f'catalogue = "{rows}"',
    ]
    agent = make_agent(health="\n".join(lines))
    done = check(agent)
    shown = done.stdout.splitlines()
    for line in lines:
        assert f"{line}  # {agent.config}" in shown
    assert "unkillable_s = 60.0  # default" in shown
    assert "[health]" not in done.stderr
