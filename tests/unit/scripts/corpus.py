# SPDX-License-Identifier: Apache-2.0
"""The job scripts of tests/data/scripts, each with what is to be found in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[2] / "data/scripts"
_EXPECTED = ".expected.json"


class Example(NamedTuple):
    """A script and what its author expects: findings as (kind, severity, line), steps as (line, conditional)."""

    path: Path
    about: str
    parse: str
    steps: list[tuple[int, bool]]
    findings: set[tuple[str, str, int]]


def examples() -> list[Example]:
    """All of them, by name."""
    return [_example(path) for path in sorted(FOLDER.glob(f"*{_EXPECTED}"))]


def _example(expected: Path) -> Example:
    base = FOLDER / expected.name.removesuffix(_EXPECTED)
    path = base if base.exists() else next(p for p in FOLDER.glob(f"{base.name}.*") if not p.name.endswith(_EXPECTED))
    said: dict[str, Any] = json.loads(expected.read_text())
    return Example(
        path,
        said["about"],
        said["parse"],
        [(step["line"], step["conditional"]) for step in said["guarded_steps"]],
        {(finding["kind"], finding["severity"], finding["line"]) for finding in said["findings"]},
    )
