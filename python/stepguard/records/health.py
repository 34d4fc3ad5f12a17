# SPDX-License-Identifier: Apache-2.0
"""What a node knows of its devices over the time of one attempt of a job: part of nodes/NODE.json.

What moved, what changed and what was found, with the values at both ends; not all that was as it should be.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Of each list. A node with as many troubles is told by the first of them, and by how many there are.
SHOWN_MAX = 64
TEXT_MAX = 300


@dataclass
class HealthChange:
    """One value that is not as it was. `kind` and `what` as in health.difference.Change, values as text; `by`: how much
    a counter moved. `status`: how bad it is that it happened; "ok": it is told, and no more."""

    kind: str
    device: str
    what: str
    before: str = ""
    after: str = ""
    by: float | None = None
    status: str = "ok"


@dataclass
class HealthFinding:
    """One thing that was wrong at the end of the job. `is_new`: it was not at its beginning."""

    status: str
    device: str
    what: str
    action: str = "none"
    evidence: str = ""
    is_new: bool = True


@dataclass
class HealthEvent:
    """Something that the kernel or a driver told of in the job's time: identical ones are counted. `code` is "" where
    the source names none. Times are those of the first and of the last, as the node's clock had them."""

    source: str
    code: str
    device: str
    fault_class: str
    action: str
    status: str
    count: int = 1
    first_s: float | None = None
    last_s: float | None = None
    text: str = ""


@dataclass
class HealthRecord:
    """
    `status`        the worst of it: ok, warn, fail, or unknown, where it cannot be told
    `action`        what the node's verdict asked for at the end, of what concerns the job
    `gpus`          UUIDs of the job's GPUs, all of the node where they could not be told apart
    `seconds`       between the two looks; None where there was one at most
    `energy_j`      used by the GPUs in between, at least; None is not known
    `throttled_ms`  cause → for how long clocks were held down, all GPUs together
    `not_known`     device → values that one of the two looks did not tell
    `reaction`      what was done to the node in Slurm in that time
    `left_out`      list → how many more there were than are kept
    `why`           why something is not known
    """

    status: str
    action: str = "none"
    gpus: list[str] = field(default_factory=list)
    seconds: float | None = None
    changes: list[HealthChange] = field(default_factory=list)
    findings: list[HealthFinding] = field(default_factory=list)
    events: list[HealthEvent] = field(default_factory=list)
    energy_j: float | None = None
    throttled_ms: dict[str, float] = field(default_factory=dict)
    not_known: dict[str, list[str]] = field(default_factory=dict)
    reaction: str = ""
    left_out: dict[str, int] = field(default_factory=dict)
    why: str = ""
