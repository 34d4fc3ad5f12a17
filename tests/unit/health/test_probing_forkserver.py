# SPDX-License-Identifier: Apache-2.0
"""The forkserver of probes: what its children get and leave, and how it and they end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.gpus import Gpus
from stepguard.health import probe_request
from stepguard.health.model import Report, Status
from stepguard.health.probe_request import Request
from stepguard.health.probes.settings import Settings
from stepguard.health.probing import Probes, Running, probe
from unit.health.scripted import PROBE, Scripted, children, descriptors, forkserver, is_gone, state, until

_SLEEPS = "echo $$ >pid; exec sleep 1000"
_TELLS = """
import os, threading
from stepguard.health.model import Report, Status
def run(settings):
    status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if line.startswith("Sig"))
    return Report("host", Status.OK, values={
        "descriptors": sorted(os.listdir("/proc/self/fd")),
        "stdin": os.readlink("/proc/self/fd/0"),
        "directory": os.getcwd(),
        "leads": os.getsid(0) == os.getpgid(0) == os.getpid(),
        "threads": threading.active_count(),
        "environment": dict(os.environ),
        "blocked": int(status["SigBlk"], 16),
        "ignored": int(status["SigIgn"], 16) & 0x7FFFFFFF,
    })
"""
# What a Python ignores from its start.
_PYTHON_IGNORES = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
# Starts a probe that hangs, and does not end it.
_STARTER = """
import sys, time
from stepguard.health.probes.settings import Settings
from stepguard.health.probing import Probes
probes = Probes()
running = probes.start("nvml", Settings(dev="/nonexistent"))
while not running.said():
    time.sleep(0.01)
print("hangs", flush=True)
sys.stdin.readline()
"""


def _start(probes: Probes, name: str = PROBE) -> Running:
    running = probes.start(name, Settings(dev="/nonexistent"))
    assert isinstance(running, Running)
    return running


def _await(running: Running) -> Report:
    with running:
        assert select.select([running], [], [], 30)[0]
        report = running.take()
    assert report is not None
    return report


@pytest.fixture
def asking() -> Iterator[socket.socket]:
    """Of a forkserver that a test speaks to by itself."""
    mine, its = probe_request.channel()
    with mine, its:
        argv = [sys.executable, "-I", "-m", "stepguard.health.forkserver"]
        with subprocess.Popen(argv, stdin=its.fileno(), stderr=subprocess.PIPE) as process:
            its.close()
            yield mine
            mine.close()
            assert process.wait(30) == 0


def test_what_a_child_begins_with(scripted: Scripted, probes: Probes) -> None:
    scripted.module(_TELLS)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGTERM})
    try:
        told = [_await(_start(probes)).values for _ in range(2)]
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM, signal.SIGTERM})
    assert told[0] == told[1]
    environment = told[0].pop("environment")
    assert environment == dict(os.environ)
    assert told[0] == {
        "descriptors": ["0", "1", "2", "3", "4"],  # the last is that of the directory that is listed
        "stdin": "/dev/null",
        "directory": "/",
        "leads": True,
        "threads": 1,
        "blocked": 0,
        "ignored": _PYTHON_IGNORES,
    }


def test_no_driver_is_loaded_by_the_forkserver(gpus: Gpus, probes: Probes) -> None:
    assert _await(_start(probes, "nvml")).status is Status.OK
    maps = Path(f"/proc/{forkserver()}/maps").read_text()
    assert "_ctypes" in maps and "nvidia-ml" not in maps
    assert len(list(Path(f"/proc/{forkserver()}/task").iterdir())) == 1


def test_two_at_once(scripted: Scripted, gpus: Gpus, probes: Probes) -> None:
    scripted.script(_SLEEPS)
    with _start(probes) as sleeping:
        assert _await(_start(probes, "nvml")).reason == "8 GPUs, no finding"
        assert sleeping.take() is None
        assert children(forkserver()) == [scripted.pid("pid")]


def test_who_closes_one_ends_it_and_what_it_has_started(scripted: Scripted, probes: Probes) -> None:
    scripted.script("sleep 1000 &\necho $! >sleeper\necho $$ >pid\ntrap '' TERM\nwait")
    with _start(probes):
        pids = [scripted.pid(name) for name in ("pid", "sleeper")]
    assert all(map(is_gone, pids))
    assert until(lambda: not children(forkserver())), "it is reaped"


def test_one_that_crashes(scripted: Scripted, probes: Probes) -> None:
    scripted.script("kill -SEGV $$")
    assert _await(_start(probes)).reason.startswith("it ended with status -11: no report")
    scripted.script("echo 'not well' >&2; exit 3")
    assert _await(_start(probes)).reason == "it ended with status 3: not well", "the same forkserver goes on"


def test_a_module_that_cannot_be_imported(scripted: Scripted, probes: Probes) -> None:
    scripted.module("raise OSError('no such library')")
    for _ in range(2):
        assert _await(_start(probes)).reason == "it ended with status 1: OSError: no such library"


def test_a_forkserver_that_is_killed(gpus: Gpus, probes: Probes) -> None:
    gpus["driver.hangs"] = "*"
    running = _start(probes, "nvml")
    assert until(running.said)
    killed = forkserver()
    [child] = children(killed)
    os.kill(killed, signal.SIGKILL)
    report = _await(running)
    assert (report.status, report.reason) == (Status.UNKNOWN, "its forkserver has ended: nvmlInit was called")
    assert is_gone(child)
    del gpus["driver.hangs"]
    assert _await(_start(probes, "nvml")).status is Status.OK
    assert state(killed) == "", "it is reaped"


def test_a_forkserver_that_does_not_start(scripted: Scripted, probes: Probes) -> None:
    (scripted.place / "launcher").write_text("raise SystemExit(4)")
    report = _await(_start(probes))
    assert (report.status, report.reason) == (Status.UNKNOWN, "its forkserver has ended")
    (scripted.place / "launcher").unlink()
    assert _await(_start(probes)).status is Status.UNKNOWN


def test_a_forkserver_that_takes_nothing(gpus: Gpus, probes: Probes) -> None:
    _await(_start(probes, "nvml"))
    stopped = forkserver()
    os.kill(stopped, signal.SIGSTOP)
    large = Settings(dev="/nonexistent", state="/" + "x" * 20_000)  # or there is room for more than we may have open
    with contextlib.ExitStack() as kept:
        started = []
        while isinstance(one := probes.start("nvml", large), Running):
            started.append(kept.enter_context(one))
        assert (one.status, one.reason) == (
            Status.UNKNOWN,
            "it cannot be started: [Errno 11] Resource temporarily unavailable",
        )
        assert until(lambda: all(running.take() for running in started)), "nobody will answer them"
    assert state(stopped) == ""
    assert _await(_start(probes, "nvml")).status is Status.OK


@pytest.mark.parametrize(
    "garbage",
    [b"no JSON", b"[]", b"{}", b"\xff", b"[" * 60_000, b'{"name": "host"}', b" " * 100_000],
)
@pytest.mark.parametrize("count", [0, 1, 3, 20])
def test_what_is_no_request_changes_nothing(asking: socket.socket, garbage: bytes, count: int) -> None:
    asking.setblocking(True)
    unread, word = os.pipe()
    try:
        socket.send_fds(asking, [garbage], [word] * count)
    finally:
        os.close(word)
    assert os.read(unread, 100) == b"", "nothing is said, and nothing kept"
    os.close(unread)
    heard, word = os.pipe()
    with Path(os.devnull).open("w") as nothing:
        request = Request("no such probe", "{}", nothing.fileno(), nothing.fileno(), word)
        probe_request.send(asking, request)
    os.close(word)
    assert probe_request.hear(heard).status == 1
    os.close(heard)


def test_it_ends_with_whoever_started_it(gpus: Gpus) -> None:
    gpus["driver.hangs"] = "*"
    argv = [sys.executable, "-c", _STARTER]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None and starter.stdout.readline() == b"hangs\n"
        [server] = children(starter.pid)
        [child] = children(server)
        starter.kill()
    assert is_gone(server) and is_gone(child)


def test_nothing_is_left_of_many(scripted: Scripted, probes: Probes) -> None:
    scripted.module("from stepguard.health.model import *\ndef run(settings): return Report('host', Status.OK)")
    assert _await(_start(probes)).status is Status.OK
    server = forkserver()
    own, its = set(descriptors()), descriptors(server)
    for _ in range(200):
        assert _await(_start(probes)).status is Status.OK
    assert forkserver() == server
    assert until(lambda: not children(server)), "no zombie"
    assert set(descriptors()) <= own, "what earlier tests left may be collected meanwhile"
    assert until(lambda: len(descriptors(server)) <= len(its)), "it closes them just after its word"
    probes.close()
    assert state(server) == "" and children() == []


def test_several_one_after_another_have_one_forkserver(gpus: Gpus, probes: Probes) -> None:
    assert probe("nvml", Settings(dev="/nonexistent"), probes=probes).status is Status.OK
    first = forkserver()
    assert probe("nvml", Settings(dev="/nonexistent"), probes=probes).status is Status.OK
    assert forkserver() == first
