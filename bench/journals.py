# SPDX-License-Identifier: Apache-2.0
"""The journals that guarded steps leave."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lab import LabError


class Events(dict[tuple[str, int], Mapping[str, Any]]):
    """The events of one guarded step by kind and attempt."""

    def __missing__(self, key: tuple[str, int]) -> Mapping[str, Any]:
        raise LabError(f"no event {key[0]!r} of attempt {key[1]} in the journal, only {sorted(self)}")


def by_attempt(records: Iterable[Mapping[str, Any]]) -> Events:
    """The records of one guarded step."""
    return Events({(record["event"], record.get("attempt", -1)): record for record in records})


def read(state: Path) -> Events:
    """What the only journal below a state directory tells. Raises LabError when there is none, or several."""
    paths = list(state.glob("stepguard/*/*/resumes.jsonl"))
    if len(paths) != 1:
        raise LabError(f"one journal is expected in {state}, found: {len(paths)}")
    return by_attempt(json.loads(line) for line in paths[0].read_text().splitlines())
