# SPDX-License-Identifier: Apache-2.0
"""The record of the job, as its user reads it when all is over: what `stepguard job` prints, shortened."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from demo.job import USER
from demo.stage import StoryError
from lab import Cluster

_JOB = ["/opt/stepguard/bin/stepguard", "job"]
# The agents tell the archive within seconds of the job's end; one whose node is off never does.
_WITHIN_S = 30.0
_ALL_WITHIN_S = 3.0
_PAUSE_S = 0.2
_SECTIONS = ("Findings", "How it ended", "What ran", "When", "Attempts", "Resumes", "Last lines of stdout")
_QUOTED = "  | "
_QUOTED_LINES = 3
_WIDTH = 118


def record(lab: Cluster, job_id: str) -> str:
    """The page of a job that has ended. Raises StoryError when its record does not say so in time."""
    begin_s = ended_s = time.monotonic()
    while not _is_whole(found := _last_attempt(lab, job_id)):
        now_s = time.monotonic()
        if found.get("outcome", "running") == "running":
            ended_s = now_s
        elif now_s - ended_s > _ALL_WITHIN_S:
            break
        if now_s - begin_s > _WITHIN_S:
            raise StoryError(f"expected: the record of job {job_id} within {_WITHIN_S:g} s of its end; found: none")
        time.sleep(_PAUSE_S)
    page = lab.run([*_JOB, job_id], user=USER).stdout
    return "\n".join(_shortened(page.split("\n")))


def _last_attempt(lab: Cluster, job_id: str) -> dict[str, Any]:
    """Its record as JSON; empty while there is none."""
    done = lab.run([*_JOB, job_id, "--json"], user=USER, check=False)
    return dict(json.loads(done.stdout)["records"][-1]) if done.status == 0 else {}


def _is_whole(found: dict[str, Any]) -> bool:
    """Whether the job has ended, and all of its nodes have told their part."""
    if found.get("outcome", "running") == "running":
        return False
    return set(found["manifest"]["nodes"]) <= {part["node"] for part in found["nodes"]}


def _shortened(page: list[str]) -> Iterator[str]:
    """The heading and some sections; of script and output, the last lines that the page has."""
    section, lines = "", list[str]()
    for line in [*page, ""]:
        if line:
            section = section or line
            lines.append(line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…")
            continue
        if section in _SECTIONS or section.startswith("Job "):
            quoted = [number for number, text in enumerate(lines) if text.startswith(_QUOTED.rstrip())]
            shown = (text for number, text in enumerate(lines) if number not in quoted[:-_QUOTED_LINES])
            yield from (["", *shown] if section in _SECTIONS else shown)
        section, lines = "", []
