# SPDX-License-Identifier: Apache-2.0
"""May there be one more attempt? Crash loops end here, with the rule that ended them."""

from __future__ import annotations

from dataclasses import dataclass, field

from stepguard.config import Resume
from stepguard.resume.verdict import Cause, Verdict

# This many quick failures of one kind in a row are a crash loop.
_QUICK_FAILURES = 3


@dataclass
class Limits:
    """Counts what was tried. `resumes` starts at what earlier runs of a requeued job already used."""

    config: Resume
    resumes: int = 0
    _quick: list[str] = field(default_factory=list)

    def refusal(self, verdict: Verdict, ran_s: float, time_left_s: float | None) -> str:
        """Why there is no further attempt after one that ran `ran_s` seconds; empty when there may be one."""
        if verdict.cause is Cause.NETWORK and not self.config.resume_network:
            return "faults of the network are not resumed here ([resume] resume_network = false)"
        if verdict.cause not in (Cause.HARDWARE, Cause.NETWORK):
            return f"not resumed: {verdict.cause.value}"
        if self.resumes >= self.config.max_resumes:
            return f"max_resumes reached ({self.config.max_resumes})"
        kind = f"{verdict.cause.value}/{'+'.join(sorted({f.source for f in verdict.findings}))}"
        self._quick = [*self._quick, kind] if ran_s < self.config.min_progress_s else []
        last = self._quick[-_QUICK_FAILURES:]
        if len(last) == _QUICK_FAILURES and len(set(last)) == 1:
            return f"no progress: {_QUICK_FAILURES} failures ({kind}) within {self.config.min_progress_s:g} s each"
        if time_left_s is not None and time_left_s < self.config.min_time_left_s:
            return f"too little time left in the job ({time_left_s:.0f} s)"
        return ""
