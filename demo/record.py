# SPDX-License-Identifier: Apache-2.0
"""The record of the job, as its user reads it when all is over: what `stepguard job` prints, shortened."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from demo.job import USER
from demo.stage import StoryError
from lab import Cluster

_JOB = ["/opt/stepguard/bin/stepguard", "job"]
# The agents tell the archive within seconds of the job's end.
_WITHIN_S = 30.0
_PAUSE_S = 0.2
_SECTIONS = ("Findings", "How it ended", "What ran", "When", "Attempts", "Resumes", "Last lines of stdout")
_QUOTED = "  | "
_QUOTED_LINES = 3
_WIDTH = 118


def record(lab: Cluster, job_id: str) -> str:
    """The page of a job that has ended. Raises StoryError when its record does not say so in time."""
    end_s = time.monotonic() + _WITHIN_S
    while _outcome(lab, job_id) in ("", "running"):
        if time.monotonic() > end_s:
            raise StoryError(f"expected: a whole record of job {job_id} within {_WITHIN_S:g} s of its end; found: none")
        time.sleep(_PAUSE_S)
    page = lab.run([*_JOB, job_id], user=USER).stdout
    return "\n".join(_shortened(page.split("\n")))


def _outcome(lab: Cluster, job_id: str) -> str:
    """That of the last attempt; "" while there is no record."""
    done = lab.run([*_JOB, job_id, "--json"], user=USER, check=False)
    return str(json.loads(done.stdout)["records"][-1]["outcome"]) if done.status == 0 else ""


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
