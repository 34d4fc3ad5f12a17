# SPDX-License-Identifier: Apache-2.0
"""The jobs that GPUs of this node have failed: kept after the GPU is mended, so that a node where that happens again
and again is known ("lemon"). By the address of the GPU: several in one slot that fail are a fault of the node too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stepguard.config import Health
from stepguard.health.marking import REASONS
from stepguard.health.model import Status
from stepguard.health.offenders import Failure, Offender, offenders
from stepguard.health.verdict import Item, NodeVerdict
from stepguard.records.spool import AttemptKey

# A week of the worst node: one that fails a job each ten minutes.
_REMEMBERED = 1000

VerdictOf = Callable[[AttemptKey], NodeVerdict | None]
"""What concerns an attempt; None where its GPUs are not known, so that nothing can be told against one of them."""


class Offences:
    """`state` is what an earlier `state()` gave."""

    def __init__(self, config: Health, state: Mapping[str, Any]) -> None:
        self._config = config
        told = state.get("jobs", ())
        self._failures = [Failure(str(gpu), str(job_id), float(at_s)) for gpu, job_id, at_s in told]
        # What has failed on GPUs, and how often: what was before a job began is not counted against it.
        self._known: dict[str, int] = {str(key): int(count) for key, count in state.get("known", {}).items()}
        # A job may be over a moment after its GPU has failed, or before the kernel has said so.
        self._were_open: list[AttemptKey] = []

    def state(self) -> dict[str, Any]:
        return {"jobs": [[one.gpu, one.job_id, one.at_s] for one in self._failures], "known": self._known}

    def look(self, verdict: NodeVerdict, attempts: Iterable[AttemptKey], verdict_of: VerdictOf) -> bool:
        """Takes in what has failed since the last look, and under which of the attempts that are open, or were then.
        Returns whether what is remembered has changed."""
        now_open = list(attempts)
        concerned, self._were_open = dict.fromkeys([*self._were_open, *now_open]), now_open
        failed = _failed_gpus(verdict)
        known = {key: item.count for key, item in failed.items()}
        if known == self._known:
            return False
        news = {key for key, count in known.items() if count > self._known.get(key, 0)}
        self._known = known
        if news:
            self._count(news, concerned, verdict_of)
        return True

    def _count(self, news: set[str], attempts: Iterable[AttemptKey], verdict_of: VerdictOf) -> None:
        now_s = time.time()
        for key in attempts:
            own = verdict_of(key)
            gpus = {item.gpu for name, item in _failed_gpus(own).items() if name in news} if own else set()
            self._failures += [Failure(gpu, str(key.job_id), now_s) for gpu in sorted(gpus)]
        young = [one for one in self._failures if now_s - one.at_s < self._config.lemon_window_s]
        self._failures = young[-_REMEMBERED:]

    def offenders(self) -> list[Offender]:
        """The GPUs that have failed too many jobs, the worst first."""
        return offenders(self._failures, self._config, time.time())


def _failed_gpus(verdict: NodeVerdict) -> dict[str, Item]:
    """The hardware of GPUs that has failed, by the items' keys."""
    return {
        item.key: item for item in verdict.items if item.gpu and item.status is Status.FAIL and item.action in REASONS
    }


def count(found: Iterable[Offender]) -> int:
    """How many jobs the worst of them has failed."""
    return max((len(one.job_ids) for one in found), default=0)
