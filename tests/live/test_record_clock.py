# SPDX-License-Identifier: Apache-2.0
"""A node's clock is set by an hour in the middle of a job: its record stays right and in order."""

from __future__ import annotations

import time

import pytest

from guarded import await_task
from lab.clock import Clock
from recorded import record_of, recording_lab, submit
from stepguard.archive.fold import CLOCK_SET

_HOUR_S = 3600.0
# What a busy machine may need for a job of 3 s.
_LATE_S = 120.0


@pytest.mark.parametrize("ahead_s", [_HOUR_S, -_HOUR_S])
def test_the_clock_is_set_in_the_middle_of_a_job(ahead_s: float) -> None:
    """The hook is linked statically, so the epilog has the machine's clock: that set forth is set back at the end, and
    forth again for the agent, which looks at the devices then."""
    with recording_lab(1) as lab:
        clock = Clock(lab, "n1")
        began_s = time.time()
        job_id = submit(lab, "echo begun; srun sleep 3; echo over", "-o", "set.out")
        await_task(lab, "n1", "sleep 3")
        clock.set_ahead(ahead_s)
        record = record_of(lab, job_id, within_s=60)
        manifest, (batch, step) = record.manifest, record.manifest.steps
        assert (manifest.state, manifest.exit_status, record.lacks) == ("ended", 0, [])
        assert record.output() == b"begun\nover\n"
        assert [batch.step_id, step.step_id] == ["batch", "0"]
        times_s = [began_s, manifest.start_s, batch.start_s, step.start_s, step.end_s, batch.end_s, manifest.end_s]
        known_s = [at_s for at_s in times_s if at_s is not None]
        assert len(known_s) == 7
        assert known_s == sorted(known_s)
        assert known_s[4] - known_s[3] >= 2.5
        assert known_s[-1] - began_s < _LATE_S
        told = [finding for finding in record.lines("findings.jsonl") if finding["code"] == CLOCK_SET]
        assert [finding["node"] for finding in told] == ["n1"] * 3
        for finding, step_s in zip(told, (ahead_s, -ahead_s, ahead_s), strict=True):
            assert f"set by {step_s:+.1f} s" in finding["text"]
        lab.wait_idle()
