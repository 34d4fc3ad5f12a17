# SPDX-License-Identifier: Apache-2.0
"""What a node tells of itself: its watch passes on what the fault file says, and what the agent finds for the job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# What broken hardware needs, the most first.
HARDWARE_ACTIONS = ("replace", "reboot", "reset-gpu")
_TROUBLE = ("warn", "fail")
_PROGRAM_ACTIONS = ("restart-application", "none")
_ACRONYMS = ("xid", "sxid")
_TEXT_MAX = 500
_WORD_MAX = 64


class Told(NamedTuple):
    """One thing that may be wrong with a node, in the words of the agent's answer.

    `source` is fault-file or agent. `origin` is who told the agent: xid, oom, the name of a probe. `fault_class` and
    `status` are those of stepguard.health.model; `device` is "" for the node as a whole. `first_s` and `last_s` say
    when it was seen, by the monotonic clock of whoever holds this; None where it is so now. They travel as ages.
    """

    source: str
    action: str
    text: str
    origin: str = ""
    code: str = ""
    device: str = ""
    is_gpu: bool = False
    fault_class: str = ""
    status: str = "fail"
    first_s: float | None = None
    last_s: float | None = None

    @property
    def is_trouble(self) -> bool:
        """Whether anything is wrong, as opposed to what cannot be told."""
        return self.status in _TROUBLE

    @property
    def is_hardware(self) -> bool:
        """Whether the node must not be used for this."""
        return self.status == "fail" and self.action in HARDWARE_ACTIONS

    @property
    def is_programs(self) -> bool:
        """Whether it is the program's own fault. An XID 45, which asks for a check, may be of anybody's killing it."""
        return self.fault_class == "application" and not self.is_hardware and self.action in _PROGRAM_ACTIONS

    @property
    def name(self) -> str:
        """In short: XID 43 on GPU 0000:0f:00."""
        origin = self.origin.upper() if self.origin in _ACRONYMS else self.origin
        what = f"{origin} {self.code}".strip() or self.text
        return f"{what} on {'GPU ' if self.is_gpu else ''}{self.device}" if self.device else what

    @property
    def identity(self) -> tuple[str, ...]:
        """The same for the same thing, whenever it was seen."""
        return (*self[:6], self.fault_class, self.status)

    def seen_since(self, since_s: float) -> bool:
        """Whether it is so now, or was seen again since then."""
        return self.last_s is None or self.last_s >= since_s

    def is_new_since(self, since_s: float) -> bool:
        """Whether it came since then: an event that came again, a probe's finding (without a class) for the first
        time."""
        came_s = self.last_s if self.fault_class else self.first_s
        return came_s is None or came_s >= since_s

    def aged(self, now_s: float) -> list[Any]:
        """For JSON, with ages in place of times."""
        ages = (None if time_s is None else round(now_s - time_s, 3) for time_s in (self.first_s, self.last_s))
        return [*self[:-2], *ages]


def _from_aged(values: object, now_s: float) -> Told | None:
    """What `Told.aged` gave; None where it is nothing of the kind."""
    if not isinstance(values, list) or len(values) != len(Told._fields):
        return None
    source, action, text, origin, code, device, is_gpu, fault_class, status, first_s, last_s = values
    words = (source, action, text, origin, code, device, fault_class, status)
    if not all(isinstance(word, str) for word in words) or not isinstance(is_gpu, bool):
        return None
    times = [_time(age_s, now_s) for age_s in (first_s, last_s)]
    return Told(source, action, text, origin, code, device, is_gpu, fault_class, status, *times)


def told_in(report: Mapping[str, object], now_s: float) -> list[Told]:
    """What a watch's report says; nonsense is left aside."""
    told = report.get("told")
    found = (_from_aged(values, now_s) for values in told) if isinstance(told, list) else ()
    return [one for one in found if one is not None]


def from_agent(finding: object, now_s: float) -> Told | None:
    """A finding of the agent's answer to `verdict`; None where it is none."""
    if not isinstance(finding, dict):
        return None
    action, text = finding.get("action"), finding.get("text")
    if not isinstance(action, str) or not isinstance(text, str):
        return None
    gpu = _word(finding.get("gpu"))
    return Told(
        source=_word(finding.get("source")),
        action=action[:_WORD_MAX],
        text=text[:_TEXT_MAX],
        origin=_word(finding.get("origin")),
        code=_word(finding.get("code")),
        device=gpu or _word(finding.get("device")),
        is_gpu=bool(gpu),
        fault_class=_word(finding.get("class")),
        status=_word(finding.get("status")) or "fail",
        first_s=_time(finding.get("age_s"), now_s),
        last_s=_time(finding.get("last_age_s"), now_s),
    )


def told_of_file(faults: Sequence[tuple[str, str, str]]) -> list[Told]:
    """What the fault file says (stepguard.faults)."""
    return [Told(*fault) for fault in faults]


def _word(value: object) -> str:
    return str(value)[:_WORD_MAX] if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _time(age_s: object, now_s: float) -> float | None:
    known = isinstance(age_s, int | float) and not isinstance(age_s, bool) and math.isfinite(age_s)
    return now_s - float(age_s) if known else None  # type: ignore[arg-type]
