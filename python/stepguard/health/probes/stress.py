# SPDX-License-Identifier: Apache-2.0
"""Load, for somebody who asks for it on a node without jobs: processors and disk (stress-ng), GPUs (dcgmi diag), the
links between GPUs (nccl-tests). What is installed is run, one after the other; what it is at goes to stderr.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from stepguard.errors import ProcessError
from stepguard.health.model import Action, Finding, Report, Status
from stepguard.health.probes import memory, program
from stepguard.health.probes.document import from_document, to_document
from stepguard.health.probes.report import conclude, of_judgement
from stepguard.health.probes.settings import Settings
from stepguard.health.tools import dcgm_diag
from stepguard.health.tools.conclusion import printable

NAME = "stress"

# For what a program takes to start and to end, beyond the time that it was told to run.
_GRACE_S = 60.0
# DCGM user guide, "Run Levels": level 2 takes minutes, 3 half an hour, 4 an hour or two; field times are longer.
_DIAGNOSTIC_S = {1: 300.0, 2: 1200.0, 3: 3600.0, 4: 3 * 3600.0}
_NCCL_S = 600.0
_WRONG = re.compile(r"^# Out of bounds values : (\d{1,18}) (\w{1,20})", re.MULTILINE)
_BANDWIDTH = re.compile(r"^# Avg bus bandwidth\s{0,10}: (\d{1,9}(?:\.\d{1,9})?)", re.MULTILINE)
_GPU = re.compile(r"nvidia\d{1,4}")
# stress-ng(1), EXIT STATUS.
_STRESS_NG_FAILED = 2
_STRESS_NG = {
    1: "a wrong option, or not enough memory",
    3: "not enough of what it needs",
    4: "not there on this system",
    5: "killed",
}

Read = Callable[[program.Output], list[Finding]]


class Test(NamedTuple):
    """A program, how it is run within how many seconds, and who reads what it printed."""

    name: str
    program: str
    arguments: tuple[str, ...]
    timeout_s: float
    read: Read


def run(settings: Settings) -> Report:
    """Runs them, or tells results that are not older than `max_age_s`, with their age."""
    kept = _kept(settings)
    if kept is not None:
        return kept
    values: dict[str, object] = {}
    findings: list[Finding] = []
    until_s = time.monotonic() + settings.deadline_s - 1
    with tempfile.TemporaryDirectory(prefix="stepguard-stress-") as scratch:
        for test in _tests(settings, scratch):
            tool = program.find(test.program)
            if tool is None:
                values[test.name] = "not installed"
                continue
            started_s = time.monotonic()
            found = _run(test, tool, min(test.timeout_s, until_s - started_s))
            findings += found
            values[test.name] = {"seconds": round(time.monotonic() - started_s), "findings": len(found)}
    ran = [name for name, value in values.items() if isinstance(value, dict)]
    if not ran:
        evidence = f"nothing that could be run is installed: {', '.join(sorted(values))}"
        findings.append(Finding(Status.UNKNOWN, "", "stress", Action.CHECK, evidence))
    report = conclude(NAME, findings, f"{', '.join(ran)}: no finding", values)
    return _keep(report, settings) if ran else report


def _tests(settings: Settings, scratch: str) -> Iterator[Test]:
    time_limit = ("--timeout", f"{settings.stress_s:.0f}s")
    limit_s = settings.stress_s + _GRACE_S
    yield Test("cpu", "stress-ng", ("--cpu", "0", "--verify", *time_limit), limit_s, _stress_ng("cpu"))
    disk = ("--hdd", "2", "--hdd-bytes", "256m", "--temp-path", scratch, "--verify", *time_limit)
    yield Test("io", "stress-ng", disk, limit_s, _stress_ng("io"))
    level = settings.diagnostic_level
    yield Test("dcgm", "dcgmi", ("diag", "-r", str(level), "-j"), _DIAGNOSTIC_S.get(level, _NCCL_S), _dcgm)
    gpus = sum(1 for path in Path(settings.dev).glob("nvidia*") if _GPU.fullmatch(path.name))
    if gpus > 1:
        sizes = ("-b", "8M", "-e", "256M", "-f", "2", "-g", str(gpus))
        yield Test("nccl", "all_reduce_perf", sizes, _NCCL_S, _nccl)


def _run(test: Test, tool: str, timeout_s: float) -> list[Finding]:
    def tell(ran_s: float) -> None:
        print(f"{test.name}: {ran_s:.0f} s of at most {timeout_s:.0f} s", file=sys.stderr, flush=True)

    if timeout_s <= 0:
        return [_finding(Status.UNKNOWN, test.name, "no time was left for it")]
    tell(0)
    try:
        output = program.run([tool, *test.arguments], timeout_s, tell)
    except ProcessError as error:
        return [_finding(Status.UNKNOWN, test.name, str(error))]
    if output.status is None:
        return [_finding(Status.UNKNOWN, test.name, f"did not end within {timeout_s:.0f} s")]
    return test.read(output)


def _finding(status: Status, what: str, evidence: str) -> Finding:
    return Finding(status, "", f"stress-{what}", Action.CHECK, evidence)


def _stress_ng(name: str) -> Read:
    def read(output: program.Output) -> list[Finding]:
        if output.status == 0:
            return []
        if output.status == _STRESS_NG_FAILED:
            return [_finding(Status.FAIL, name, f"stress-ng failed: {_last_line(output.text)}")]
        why = _STRESS_NG.get(output.status or 0, _last_line(output.text))
        return [_finding(Status.UNKNOWN, name, f"stress-ng ended with {output.status}: {why}")]

    return read


def _dcgm(output: program.Output) -> list[Finding]:
    if not dcgm_diag.KIND.recognizes(output.text):
        return [_finding(Status.UNKNOWN, "dcgm", f"dcgmi ended with {output.status}: {_last_line(output.text)}")]
    return of_judgement(dcgm_diag.KIND.read(output.text, output.status), "stress-dcgm")


def _nccl(output: program.Output) -> list[Finding]:
    """nccl-tests say at the end how many values were wrong, and end with another status than 0 then."""
    wrong, bandwidth = _WRONG.search(output.stdout), _BANDWIDTH.search(output.stdout)
    if wrong is None or bandwidth is None:
        evidence = f"all_reduce_perf ended with {output.status}: {_last_line(output.text)}"
        return [_finding(Status.UNKNOWN, "nccl", evidence)]
    if int(wrong[1]) or wrong[2] != "OK":
        return [_finding(Status.FAIL, "nccl", f"{wrong[1]} values were wrong")]
    if output.status != 0:
        return [_finding(Status.UNKNOWN, "nccl", f"all_reduce_perf ended with {output.status}, all values were right")]
    return []


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return printable(lines[-1], 200) if lines else "it said nothing"


# -- results that are kept --------------------------------------------------------------------------------------------


def _kept(settings: Settings) -> Report | None:
    kept = memory.load(settings.state, NAME)
    at_s = kept.get("at_s")
    if not isinstance(at_s, int | float):
        return None
    age_s = memory.now_s() - at_s
    if not 0 <= age_s <= settings.max_age_s:
        return None
    try:
        report = from_document(kept.get("report"))
    except ValueError:
        return None
    reason = f"{report.reason} ({age_s:.0f} s ago)"
    return Report(NAME, report.status, reason, report.findings, {**report.values, "age_s": round(age_s)})


def _keep(report: Report, settings: Settings) -> Report:
    try:
        memory.save(settings.state, NAME, {"at_s": memory.now_s(), "report": to_document(report)})
    except OSError as error:
        evidence = f"the results cannot be kept in {settings.state}: {error.strerror}"
        findings = [*report.findings, _finding(Status.UNKNOWN, "results", evidence)]
        return conclude(NAME, findings, report.reason, report.values)
    return report
