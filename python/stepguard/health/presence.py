# SPDX-License-Identifier: Apache-2.0
"""Findings of probes over time: what is there, what has gone long enough, and what comes and goes.

A probe is asked again and again. What it no longer finds is gone when it has not found it for `clear_s`; what has come
`flaps` times within `flap_window_s` must be away for that long. A report that could not look says nothing about either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from stepguard.health.model import Action, Finding, Report, Status
from stepguard.health.verdict import severity

# `what` of the finding that says what NVML wants done to recover the GPU (field 230); also told when that is nothing.
RECOVERY = "recovery-action"
# The code of the item of a probe that could not look.
NO_ANSWER = "no-answer"
_MAX_ONSETS = 32
_MAX_EVIDENCE = 500

Key = tuple[str, str, str, Status]
"""Probe, what, device, status: a finding that gets worse is another one, and the better one goes in its own time."""


@dataclass(frozen=True)
class Hysteresis:
    """See above; seconds."""

    clear_s: float
    flaps: int
    flap_window_s: float


@dataclass
class Presence:
    """One finding. `onsets_s`: when it came; `absent_s`: since when it is not found any more."""

    probe: str
    what: str
    device: str
    status: Status
    action: Action
    evidence: str
    since_s: float
    last_s: float
    count: int = 1
    onsets_s: list[float] = field(default_factory=list)
    absent_s: float | None = None

    @property
    def key(self) -> Key:
        return self.probe, self.what, self.device, self.status


class Presences:
    """The findings of a node's probes."""

    def __init__(self, rules: Hysteresis) -> None:
        self._rules = rules
        self._by_key: dict[Key, Presence] = {}
        # When each probe last told something, and whether one has since this was made.
        self.has_looked = False
        self.looked_s: dict[str, float] = {}

    def add(self, report: Report, now_s: float) -> None:
        """Takes in a probe's report."""
        could_look = report.status is not Status.UNKNOWN
        found = {(report.probe, one.what, one.device, one.status): one for one in _findings(report)}
        unknown = {key[:3] for key in found if key[3] is Status.UNKNOWN}
        if could_look:
            # Before what is there: an absence is measured from look to look.
            self.has_looked = True
            self.looked_s[report.probe] = now_s
            for one in self._by_key.values():
                is_told = one.key in found or (one.key[:3] in unknown)
                if one.probe == report.probe and not is_told and one.absent_s is None:
                    one.absent_s = now_s
        for key, finding in found.items():
            known = self._by_key.get(key)
            if known is None or known.absent_s is not None:
                known = self._by_key[key] = self._come(known, report.probe, finding, now_s)
            known.last_s, known.action, known.evidence = now_s, finding.action, finding.evidence[:_MAX_EVIDENCE]
        self._drop(now_s)

    def there(self) -> Iterator[Presence]:
        """All that has not gone, of one thing the worst."""
        worst: dict[tuple[str, str, str], Presence] = {}
        for one in self._by_key.values():
            if not self._is_gone(one):
                other = worst.get(one.key[:3])
                if other is None or severity(one.status) > severity(other.status):
                    worst[one.key[:3]] = one
        return iter(worst.values())

    def forget(self, things: Iterable[tuple[str, str, str]]) -> None:
        """Forgets these (probe, what, device), in every status."""
        gone = set(things)
        self._by_key = {key: one for key, one in self._by_key.items() if key[:3] not in gone}

    def keep_probes(self, probes: Iterable[str]) -> None:
        """Forgets what other probes have found: they are asked no more."""
        kept = set(probes)
        self._by_key = {key: one for key, one in self._by_key.items() if one.probe in kept}
        self.looked_s = {probe: at for probe, at in self.looked_s.items() if probe in kept}

    def shift(self, by_s: float) -> None:
        """Moves all times."""
        self.looked_s = {probe: at + by_s for probe, at in self.looked_s.items()}
        for one in self._by_key.values():
            one.since_s += by_s
            one.last_s += by_s
            one.onsets_s = [time + by_s for time in one.onsets_s]
            one.absent_s = None if one.absent_s is None else one.absent_s + by_s

    def to_state(self) -> dict[str, Any]:
        ordered = sorted(self._by_key.values(), key=lambda one: one.key)
        return {"looked_s": dict(sorted(self.looked_s.items())), "findings": [asdict(one) for one in ordered]}

    def from_state(self, state: dict[str, Any]) -> None:
        """Takes in what `to_state` gave. Raises KeyError, TypeError or ValueError when it is nothing of the kind."""
        self.looked_s = {str(probe): float(at) for probe, at in state["looked_s"].items()}
        for record in state["findings"]:
            one = Presence(**{**record, "status": Status(record["status"]), "action": Action(record["action"])})
            self._by_key[one.key] = one

    def _come(self, known: Presence | None, probe: str, finding: Finding, now_s: float) -> Presence:
        """The finding as it comes, or comes again."""
        made = Presence(
            *(probe, finding.what, finding.device, finding.status, finding.action, finding.evidence, now_s, now_s)
        )
        if known is not None and not self._is_gone(known):
            made.since_s = known.since_s
        made.count = 1 if known is None else known.count + 1
        made.onsets_s = [*([] if known is None else known.onsets_s), now_s][-_MAX_ONSETS:]
        return made

    def _is_gone(self, one: Presence) -> bool:
        """Whether the probe has looked, and not found it, for long enough."""
        if one.absent_s is None:
            return False
        if one.status is Status.UNKNOWN:
            return True
        came = sum(one.onsets_s[-1] - onset < self._rules.flap_window_s for onset in one.onsets_s)
        needed_s = self._rules.flap_window_s if came >= self._rules.flaps else self._rules.clear_s
        return self.looked_s[one.probe] - one.absent_s >= needed_s

    def _drop(self, now_s: float) -> None:
        """Forgets what is gone and can flap no more."""
        since_s = now_s - self._rules.flap_window_s
        self._by_key = {
            key: one for key, one in self._by_key.items() if not self._is_gone(one) or one.onsets_s[-1] > since_s
        }


def _findings(report: Report) -> list[Finding]:
    """What is wrong by the report, and what it says of recovery; where it does not say what, the report itself."""
    told = [one for one in report.findings if one.status is not Status.OK or one.what == RECOVERY]
    if report.status is Status.UNKNOWN:
        return [*told, Finding(Status.UNKNOWN, "", NO_ANSWER, Action.NONE, report.reason)]
    if report.status is not Status.OK and not told:
        return [Finding(report.status, "", report.probe, Action.CHECK, report.reason)]
    return told
