# SPDX-License-Identifier: Apache-2.0
"""`dcgmi diag -r N`: the table and the JSON (`-j`) of DCGM 2 to 4."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stepguard.health.model import DeviceJudgement, Judgement, Status, worst
from stepguard.health.tools import dcgm_diag_json, dcgm_diag_table
from stepguard.health.tools.conclusion import Remark, conclude
from stepguard.health.tools.dcgm_result import ALL_GPUS, NODE, Problem, Result
from stepguard.health.tools.kind import bounded, lines

_JSON = re.compile(r'"(?:DCGM (?:GPU )?Diagnostic|test_categories)"\s{0,8}:')
_NOT_RUN = re.compile(
    r"Error: (?:Diagnostic can|Diagnostic could|Unable to complete diagnostic|Unable to start an embedded host|"
    r"Could not stop the launched diagnostic).*"
)
# dcgmErrorSeverity_t of dcgm_errors.h: 0 is none; 2 isolate and 6 reset say that the device is not fit for use.
_NONE, _SEVERE = 0, (2, 6)

# Statuses in lower case, without what follows " - ". "notrun" tells nothing.
_STATUSES = {"pass": Status.OK, "passed": Status.OK, "fail": Status.FAIL, "failed": Status.FAIL, "warn": Status.WARN}
# What every run looks at that looks at GPUs at all (levels 2 and up): where one ran, the other was not left out on
# purpose. Level 1 has neither, level 2 skips the long ones.
_BASIC = {"gpu memory": "memory", "memory": "memory", "pcie": "pcie"}
_NOTHING = ("skip", "skipped", "notrun", "not run", "")


def recognizes(text: str) -> bool:
    if _JSON.search(text):
        return True
    return any(dcgm_diag_table.begins(line) or _NOT_RUN.match(line) for line in lines(text))


def read(text: str, exit_status: int | None) -> Judgement:
    if _JSON.search(text):
        results, remarks = dcgm_diag_json.read(text)
    else:
        results, remarks = dcgm_diag_table.read(text)
    remarks += [Remark(Status.UNKNOWN, line) for line in lines(text) if _NOT_RUN.match(line)]
    remarks += _left_out(results)
    devices = _judge(results)
    if not devices and not remarks:
        remarks.append(Remark(Status.UNKNOWN, "no test was run"))
    exits = {}
    if exit_status and worst(one.status for one in devices) is Status.OK:
        exits[exit_status] = Remark(Status.WARN, f"dcgmi ended with {exit_status}, although all tests passed")
    return conclude(devices, exit_status, remarks, exits)


def _left_out(results: Iterable[Result]) -> list[Remark]:
    basic = [(_BASIC[name], result) for result in results if (name := result.test.strip().lower()) in _BASIC]
    ran = {name for name, result in basic if _said(result) not in _NOTHING}
    left_out = {result.test.strip() for name, result in basic if ran and name not in ran}
    return [Remark(Status.UNKNOWN, f"{test} was skipped, though others ran") for test in sorted(left_out)]


def _said(result: Result) -> str:
    return result.status.split(" - ", 1)[0].strip().lower()


def _judge(results: Iterable[Result]) -> list[DeviceJudgement]:
    """Each device by its worst test; one of which all tests were skipped is UNKNOWN."""
    found: dict[str, list[tuple[Status, str]]] = {}
    for result in results:
        tests = found.setdefault(result.device, [])
        status, reason = _judge_one(result)
        if status is not None:
            tests.append((status, reason))
    judged = []
    for device, tests in found.items():
        if not tests and device in (NODE, ALL_GPUS) and any(found.values()):
            continue
        status = worst(one for one, _ in tests)
        reasons = [reason for one, reason in tests if one is status and reason]
        well = f"{len(tests)} test{'s' if len(tests) > 1 else ''} passed" if tests else "all tests were skipped"
        judged.append(DeviceJudgement(device, status, "; ".join(reasons) or well))
    return judged


def _judge_one(result: Result) -> tuple[Status | None, str]:
    said = _said(result)
    problems = [problem for problem in result.problems if problem.severity != _NONE]
    told = "; ".join(problem.text for problem in problems)
    if said in _NOTHING and not problems:
        return None, ""
    # DCGM issue 284: a test that could not do its work is told to have passed, with the error beside.
    statuses = [*map(_status_of, problems), Status.OK if said in _NOTHING else _STATUSES.get(said, Status.UNKNOWN)]
    status = worst(statuses)
    if status is Status.OK:
        return status, ""
    return status, f"{result.test}: {result.status.strip()}{': ' if told else ''}{told}"


def _status_of(problem: Problem) -> Status:
    return Status.FAIL if problem.severity in _SEVERE else Status.WARN


KIND = bounded("dcgmi-diag", recognizes, read)
