# SPDX-License-Identifier: Apache-2.0
"""`stepguard agent --check` refuses a [health] with which the agent would not start, and shows the one in effect."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stepguard.agent.check import effective, local_problems
from stepguard.agent.health.kernel_log import choice
from stepguard.cli.doctor import agent_problems
from stepguard.config import Config, Health, load
from unit.agent.agent_process import AgentProcess

Make = Callable[..., AgentProcess]
_OF_PROC = "it is of /proc, which has no log that others can read as well: name /dev/kmsg"


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
    assert [one for one in agent_problems(load(agent.config)) if said.format(rows) in one], "the doctor tells it too"
    started = subprocess.run(agent.argv(), capture_output=True, text=True, timeout=60)
    assert (started.returncode, said.format(rows) in started.stderr) == (78, True), started.stderr


@pytest.mark.parametrize("kind", ["fifo", "/dev/zero"])
@pytest.mark.parametrize("key", ["catalogue", "redaction_rules", "fingerprint_key"])
def test_a_file_without_an_end_is_refused_by_whoever_would_read_it(make_agent: Make, key: str, kind: str) -> None:
    path = Path(kind) if kind.startswith("/") else make_agent().directory / kind
    if kind == "fifo":
        os.mkfifo(path)
    line = f'{key} = "{path}"\n'
    said = f"{path}: it is not a regular file: "
    agent = make_agent(health=line) if key == "catalogue" else make_agent(more=line)
    done = check(agent)
    assert (done.returncode, said in done.stderr) == (78, True), done.stderr
    assert [one for one in agent_problems(load(agent.config)) if said in one], "the doctor tells it too"
    argv = agent.argv() if key == "catalogue" else [sys.executable, "-m", "stepguard", "archiver", str(os.getpid())]
    env = {**os.environ, "STEPGUARD_CONFIG": str(agent.config)}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env)
    assert (done.returncode, said in done.stderr) == (78, True), done.stderr


def test_a_configuration_that_is_a_pipe_is_refused(make_agent: Make) -> None:
    agent = make_agent()
    agent.config.unlink()
    os.mkfifo(agent.config)
    done = check(agent)
    assert (done.returncode, f"{agent.config}: it is not a regular file" in done.stderr) == (78, True), done.stderr


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


@pytest.mark.parametrize(
    ("has_kmsg", "programs", "shown", "problem"),
    [
        (True, ["journalctl", "setpriv"], "default: {kmsg} here", ""),
        (False, ["journalctl", "setpriv"], "default: journald here ({kmsg}: No such file or directory)", ""),
        (False, ["setpriv"], "default", "journalctl"),
        (False, ["journalctl"], "default", "setpriv"),
    ],
)
def test_it_shows_where_the_kernels_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_kmsg: bool, programs: list[str], shown: str, problem: str
) -> None:
    kmsg = tmp_path / "kmsg"
    monkeypatch.setattr(choice, "_KMSG", str(kmsg))
    monkeypatch.setenv("PATH", str(tmp_path))
    if has_kmsg:
        kmsg.touch()
    for program in programs:
        (tmp_path / program).touch(mode=0o755)
    assert f'kernel_log = "auto"  # {shown.format(kmsg=kmsg)}' in effective(Config())
    found = [one for one in local_problems(Config()) if "kernel_log" in one]
    why = f"{kmsg}: No such file or directory; journald: {problem} is not installed; name"
    assert [why in one for one in found] == ([True] if problem else [])


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("", ""),
        ("{0}", "it is no file that lines can be read from"),
        ("{0}/kern.log", "No such file or directory: {0}/kern.log"),
        ("/dev/zero", "what is there is no log as /dev/kmsg gives it"),
        *((path, _OF_PROC) for path in ("/proc/kmsg", "/proc/version", "/proc/self/mem", "{0}/link", "{0}/kmsg")),
        ("{0}/shadow", "none of its last lines is one of a syslog daemon's"),
        ("{0}/empty", ""),
        ("{0}/messages", ""),
    ],
)
def test_a_kernels_log_that_is_none(tmp_path: Path, setting: str, problem: str) -> None:
    for link in ("link", "kmsg"):
        (tmp_path / link).symlink_to("/proc/kmsg")
    (tmp_path / "shadow").write_text("root:*:19000:0:99999:7:::\n")
    (tmp_path / "empty").touch()
    (tmp_path / "messages").write_text("no line\nNov 30 05:00:00 n1 sshd[7]: session opened\n")
    setting = setting.format(tmp_path)
    said = f'[health] kernel_log = "{setting}": {problem.format(tmp_path)}; name another, or "" to leave it unread'
    found = [one for one in local_problems(Config(health=Health(kernel_log=setting))) if "kernel_log" in one]
    assert found == ([said] if problem else [])


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("auto", ": without effect, for no log file is read"),
        ("journald", ": without effect, for no log file is read"),
        ("/var/log/kern.log", ""),
    ],
)
def test_a_trust_that_does_nothing_is_shown(setting: str, shown: str) -> None:
    config = Config(health=Health(kernel_log=setting, kernel_log_trusted=True))
    assert f"kernel_log_trusted = true  # default{shown}" in effective(config)
