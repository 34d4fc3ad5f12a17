# SPDX-License-Identifier: Apache-2.0
"""Probes in their children: those that hang, crash, print what is no report, or too much."""

from __future__ import annotations

import json
import select
import sys
import time
from pathlib import Path

import pytest

from lab.gpus import Gpus
from stepguard.health.model import Action, Finding, Report, Status
from stepguard.health.probes.document import from_bytes, from_document, to_document
from stepguard.health.probes.settings import Settings
from stepguard.health.probes.table import PROBES
from stepguard.health.probing import Probes, Running, probe
from unit.health.scripted import PROBE, Scripted, children, descriptors, forkserver, is_gone, until

_AT_ONCE_S = 30.0


def _started(probes: Probes, deadline_s: float = 20.0, name: str = "nvml") -> Running:
    running = probes.start(name, Settings(deadline_s=deadline_s, dev="/nonexistent"))
    assert isinstance(running, Running)
    return running


def _await(running: Running) -> Report:
    while (report := running.take()) is None:
        select.select([running], [], [], max(0.001, running.deadline_s - time.monotonic()))
    return report


def test_a_report_comes_through(gpus: Gpus) -> None:
    report = probe("nvml", Settings(dev="/nonexistent"))
    assert (report.probe, report.status) == ("nvml", Status.OK)


def test_the_loop_is_told_when_it_has_ended(gpus: Gpus, probes: Probes) -> None:
    with _started(probes) as running:
        assert select.select([running], [], [], _AT_ONCE_S)[0] == [running]
        report = running.take()
        assert report is not None and report.status is Status.OK
        assert running.take() is report


def test_an_unknown_probe() -> None:
    with pytest.raises(KeyError):
        probe("no such probe")


def test_one_that_hangs_is_killed_and_starts_again(gpus: Gpus, probes: Probes) -> None:
    gpus["driver.hangs"] = "*"
    with _started(probes, 8.0) as running:
        assert running.take() is None
        report = _await(running)
    assert (report.status, report.reason) == (Status.UNKNOWN, "no answer within 8 s: nvmlInit was called")
    assert until(lambda: not children(forkserver()))
    del gpus["driver.hangs"]
    with _started(probes) as running:
        assert _await(running).status is Status.OK


def test_no_second_one_while_the_first_lives(gpus: Gpus, probes: Probes) -> None:
    gpus["driver.hangs"] = "*"
    with _started(probes), _started(probes) as second:
        report = _await(second)
        [pid] = children(forkserver())
    said = f"its last process still runs, or hangs and cannot be killed (pid {pid})"
    assert (report.status, report.reason) == (Status.UNKNOWN, said)
    assert is_gone(pid)


def test_one_that_is_closed_before_its_end_is_killed(gpus: Gpus) -> None:
    gpus["driver.hangs"] = "*"
    before = set(descriptors())
    probes = Probes()
    running = _started(probes)
    assert until(running.said)
    [pid] = children(forkserver())
    running.close()
    running.close()
    assert is_gone(pid)
    probes.close()
    probes.close()
    assert set(descriptors()) <= before, "what earlier tests left may be collected meanwhile"


def test_a_hanging_child_ends_by_itself_where_nobody_kills_it(gpus: Gpus, probes: Probes) -> None:
    gpus["driver.hangs"] = "*"
    with _started(probes, 1.0) as running:
        assert select.select([running], [], [], _AT_ONCE_S)[0]
        report = _await(running)
    assert report.reason == "it ended with status -14: nvmlInit was called"  # SIGALRM


def test_a_driver_that_crashes_its_program(gpus: Gpus) -> None:
    gpus["driver.crashes"] = "nvmlInitWithFlags"
    report = probe("nvml", Settings(dev="/nonexistent"))
    assert (report.status, report.reason) == (Status.UNKNOWN, "it ended with status -11: nvmlInit was called")


def test_an_error_of_our_own_is_told(gpus: Gpus) -> None:
    report = probe("nvml", Settings(gpus=(3,)))  # type: ignore[arg-type]
    assert report.status is Status.UNKNOWN
    assert report.reason == "it ended with status 1: AttributeError: 'int' object has no attribute 'isdecimal'"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo no report", "it ended with status 0: no report: Expecting value"),
        ("exit 3", "it ended with status 3: no report: Expecting value"),
        ("echo '{}'", "it ended with status 0: no report: not a report"),
        ("echo '[[' ; echo 'why it is so' >&2; echo >&2", "it ended with status 0: why it is so"),
        ("head -c 100000 /dev/zero | tr '\\0' '['", "it ended with status 0: no report: nested too deep"),
        ("printf '\\303('", "it ended with status 0: no report: 'utf-"),
        ("printf 'a\\033[31mb\\377' >&2", "it ended with status 0: a?[31mb\N{REPLACEMENT CHARACTER}"),
        ("kill -9 $$", "it ended with status -9: no report: Expecting value"),
    ],
)
def test_what_is_no_report_is_unknown(script: str, said: str, scripted: Scripted) -> None:
    scripted.script(script)
    report = probe(PROBE)
    assert report.status is Status.UNKNOWN
    assert report.reason.startswith(said)


def test_a_child_that_prints_too_much_is_stopped_by_the_kernel(scripted: Scripted) -> None:
    scripted.script(
        "exec 3>&1; head -c 3000000 /dev/zero 2>error; head -c 3000000 /dev/zero >&2; stat -Lc %s /proc/$$/fd/3 >size"
    )
    report = probe(PROBE)
    assert report.status is Status.UNKNOWN
    assert len(report.reason) < 1000
    assert (scripted.place / "size").read_text() == f"{1 << 20}\n"
    error = (scripted.place / "error").read_text()
    assert "write error" in error or "error writing" in error


def test_a_child_that_ignores_signals_and_its_programs_are_killed(scripted: Scripted) -> None:
    scripted.script(
        "trap '' TERM HUP INT ALRM\nsleep 1000 &\necho $! >sleeper\necho 'the driver is asked' >&2\nwait\nwait"
    )
    report = probe(PROBE, Settings(deadline_s=8.0))
    assert (report.status, report.reason) == (Status.UNKNOWN, "no answer within 8 s: the driver is asked")
    assert is_gone(scripted.pid("sleeper"))


def test_what_a_child_leaves_behind_is_killed(scripted: Scripted) -> None:
    document = json.dumps(to_document(Report("nvml", Status.OK)))
    scripted.script(f"sleep 1000 &\necho $! >sleeper\necho '{document}'")
    assert probe(PROBE).status is Status.OK
    assert is_gone(scripted.pid("sleeper"))


def test_a_child_that_has_told_all_and_does_not_end(scripted: Scripted) -> None:
    document = json.dumps(to_document(Report("nvml", Status.WARN, "all is told")))
    scripted.script(f"echo '{document}'\nsleep 1000")
    report = probe(PROBE, Settings(deadline_s=8.0))
    assert (report.status, report.reason) == (Status.WARN, "all is told")


def test_a_program_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    report = probe(PROBE)
    assert report.status is Status.UNKNOWN
    assert report.reason.startswith("it cannot be started")


def test_a_report_as_a_document_and_back() -> None:
    finding = Finding(Status.FAIL, "GPU-1", "row-remap-failure", Action.REPLACE, "a row")
    report = Report("nvml", Status.FAIL, "why", [finding], {"gpus": {}})
    assert from_bytes(json.dumps(to_document(report)).encode()) == report


@pytest.mark.parametrize(
    "damaged",
    [
        [],
        {"probe": 1},
        {"status": "good"},
        {"findings": None},
        {"findings": [1]},
        {"findings": [{"status": "ok"}]},
        {"values": []},
        {"reason": None},
    ],
)
def test_a_damaged_document_is_refused(damaged: object) -> None:
    well: dict[str, object] = {"probe": "nvml", "status": "ok", "reason": "", "findings": [], "values": {}}
    assert from_document(well).status is Status.OK
    with pytest.raises(ValueError, match=r"."):
        from_document({**well, **damaged} if isinstance(damaged, dict) else damaged)


def test_where_there_is_nothing_to_look_at_no_child_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    monkeypatch.setenv("PATH", str(tmp_path))
    reports = {name: probe(name, Settings(root=str(tmp_path), dev=str(tmp_path))) for name in PROBES}
    started = {name for name, report in reports.items() if report.status is Status.UNKNOWN}
    assert started == {"host"}
    assert all(reports[name].reason == PROBES[name].nothing != "" for name in PROBES if name not in started)


def test_what_it_is_at_is_heard(scripted: Scripted, probes: Probes) -> None:
    scripted.script("echo 'GPU 3 is asked' >&2; exec sleep 1000")
    with _started(probes, name=PROBE) as running:
        assert until(running.said)
        assert running.said() == "GPU 3 is asked"
