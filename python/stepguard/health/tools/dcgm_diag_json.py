# SPDX-License-Identifier: Apache-2.0
"""The JSON of `dcgmi diag -j`.

DCGM 2 and 3 have the root "DCGM GPU Diagnostic" and results with gpu_id or gpu_ids, DCGM 4 "DCGM Diagnostic" and
results with entity_group and entity_id and a test_summary. Both may say runtime_error instead of results; several
iterations are an array `iterations`. Messages may come before.
"""

from __future__ import annotations

from collections.abc import Iterator

from stepguard.health.model import Status
from stepguard.health.tools.conclusion import CUT, Remark
from stepguard.health.tools.dcgm_result import NODE, Problem, Result
from stepguard.health.tools.json_text import first_document, items, mapping, text_of, whole_number

_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
_NO_STATUS = "no status"


def read(text: str) -> tuple[list[Result], list[Remark]]:
    """The results, and what is to be said of the document itself."""
    document = first_document(text)
    if document is None:
        return [], [CUT]
    results: list[Result] = []
    remarks: list[Remark] = []
    iterations = items(mapping(document).get("iterations"))
    for one in iterations or [document]:
        root = next((mapping(one)[name] for name in _ROOTS if name in mapping(one)), None)
        if not isinstance(root, dict):
            remarks.append(Remark(Status.UNKNOWN, "JSON of a shape that is not known: no root of a diagnostic"))
            continue
        if "runtime_error" in root:
            remarks.append(Remark(Status.UNKNOWN, f"the diagnostic did not run: {_text(root['runtime_error'])}"))
        found = list(_results(root))
        if not found and "runtime_error" not in root:
            remarks.append(Remark(Status.UNKNOWN, "no result of a test in it"))
        results += found
    if text_of(mapping(document).get("result")).lower() == "fail":
        remarks.append(Remark(Status.FAIL, f"not all iterations passed: {_text(mapping(document).get('warning'))}"))
    return results, remarks


def _results(root: dict[str, object]) -> Iterator[Result]:
    for category in items(root.get("test_categories")):
        for test in map(mapping, items(mapping(category).get("tests"))):
            name = text_of(test.get("name")) or "test"
            results = [mapping(result) for result in items(test.get("results"))]
            told = []
            for result in results:
                for device in _devices(result):
                    told.append(Result(device, name, _status(result), list(_problems(result))))
            yield from told
            yield from _summary(name, mapping(test.get("test_summary")), told)


def _summary(name: str, summary: dict[str, object], told: list[Result]) -> Iterator[Result]:
    """The summary of a test where it says what its results do not."""
    if not summary:
        return
    known = {problem.text for result in told for problem in result.problems}
    problems = [problem for problem in _problems(summary) if problem.text not in known]
    status = _status(summary)
    if problems or not told or (status.lower() != "pass" and status not in [result.status for result in told]):
        yield Result(NODE, name, status, problems)


def _status(result: dict[str, object]) -> str:
    return text_of(result.get("status")) or _NO_STATUS


def _devices(result: dict[str, object]) -> list[str]:
    group, entity = text_of(result.get("entity_group")), whole_number(result.get("entity_id"))
    if entity is not None:
        return [f"{group or 'GPU'} {entity}"]
    given = result.get("gpu_ids", result.get("gpu_id"))
    numbers = text_of(given).split(",") if isinstance(given, str) else [given]
    known = [number for number in map(whole_number, numbers) if number is not None]
    cpu = whole_number(result.get("cpu_id"))
    return [f"GPU {number}" for number in known] or ([NODE] if cpu is None else [f"CPU {cpu}"])


def _problems(result: dict[str, object]) -> Iterator[Problem]:
    given = result.get("warnings")
    for one in items(given) if isinstance(given, list) else [given]:
        # DCGM 3 writes the text of a deployment test's warning as "warnings", DCGM 2 as the string itself.
        entry = mapping(one)
        text = _text(entry.get("warning", entry.get("warnings", one if isinstance(one, str) else "")))
        error = whole_number(entry.get("error_id"))
        if text or error is not None:
            said = f"{text} (DCGM error {error})" if error else text
            yield Problem(said, whole_number(entry.get("error_severity")))


def _text(value: object) -> str:
    return " ".join(text_of(value).split())[:1000]
