# SPDX-License-Identifier: Apache-2.0
"""How an attempt of a job ended, and why that is believed.

Slurm tells no hook of a node the state of its job. The epilog of a job that ended by itself has in SLURM_JOB_EXIT_CODE
what its batch script ended with. In that of a job that Slurm ended (scancel, time limit, requeue, a lost node) it is 0,
or 1 of a time limit or a lost node, for the batch script has not been reported yet (22.05 to 26.05, by trial). Where
the two differ Slurm ended the job. By what, slurmstepd writes into the job's output. Its owner can write that too:
what comes from there is called so, and can harm nobody but them.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import NamedTuple

from stepguard.records.manifest import Manifest, StepRecord

RUNNING = "running"
COMPLETED, FAILED, ENDED, LOST, DAMAGED = "completed", "failed", "ended", "lost", "damaged"
CANCELLED, TIMEOUT, PREEMPTED, REQUEUED, NODE_FAIL = "cancelled", "timeout", "preempted", "requeued", "node-fail"
BY_SLURM = (CANCELLED, TIMEOUT, PREEMPTED, REQUEUED, NODE_FAIL)
OUTCOMES = (RUNNING, COMPLETED, FAILED, *BY_SLURM, ENDED, LOST, DAMAGED)

# The code of the agent's finding on a node that its gate let no job start on.
GATE = "gate"

# What slurmstepd writes at the end of a job that it was told to end, _handle_signal_container() in req.c of 22.05 to
# 26.05. The name of the program and the time that stand before it depend on release and configuration.
_NOTICE = re.compile(
    rb"error: (\*\*\* JOB ([0-9_+]{1,24}) ON [A-Za-z0-9._-]{1,256} CANCELLED AT ([0-9T:-]{8,32})"
    rb"(?: DUE (?:TO|to) ([A-Za-z0-9,() -]{3,64}))? \*\*\*)"
)
_REASONS = {
    b"TIME LIMIT": TIMEOUT,
    b"PREEMPTION": PREEMPTED,
    b"JOB REQUEUE": REQUEUED,
    b"NODE FAILURE": NODE_FAIL,
    b"SIGNAL Terminated": CANCELLED,  # 26.05
    b"SIGNAL Killed": CANCELLED,
}
# What slurmstepd reports in place of an exit that there was none of: ESLURMD_IO_ERROR, 4021 in slurm_errno.h, which
# read as wait(2) has it is signal 53 (22.05 and 24.11, by trial: a directory that is missing, or not the user's).
_NOT_OPENED_EXIT = (0, 53)
_NOT_OPENED = (
    "its script did not begin: Slurm could not open its stdin, stdout or stderr "
    "(is their directory there, and may the user write to it?), which it tells as signal 53"
)
_OTHER_SIGNAL = b"SIGNAL "  # one that a job may live on after
_NOTICE_WITHIN_BYTES = 64 << 10
# An output that is appended to has the notices of earlier attempts; their times are whole seconds.
_EARLIER_S = 2.0


class Outcome(NamedTuple):
    """One of OUTCOMES, and why, as the end of "timeout: …"."""

    word: str
    why: str = ""


class Told(NamedTuple):
    """What speaks for an outcome: exit status and signal of the batch script's process and of the job in the epilog,
    each None where it is not known, the outputs, the time limit as the prolog had it, and whether the gate of this node
    refused the job."""

    batch_exit: tuple[int, int] | None
    epilog_exit: tuple[int, int] | None
    outputs: Sequence[bytes] = ()
    limit_s: float | None = None
    is_refused: bool = False


def outcome_of(manifest: Manifest, told: Told) -> Outcome:
    """How the attempt of a manifest ended."""
    if manifest.state != "ended":
        return Outcome(manifest.state)
    steps = [step for step in manifest.steps if step.step_id != "extern"]
    if not steps:
        return _without_steps(manifest, told)
    if not any(step.step_id == "batch" for step in steps):
        return _interactive(steps, told)
    by_itself = told.batch_exit is not None and told.epilog_exit == told.batch_exit
    if by_itself and told.batch_exit != (0, 0):
        return Outcome(FAILED)  # also after scancel --batch, whose notice is the same
    if (noticed := _notice(manifest, told.outputs)) is not None:
        return noticed
    if told.batch_exit is None:
        if told.epilog_exit == _NOT_OPENED_EXIT:
            return Outcome(FAILED, _NOT_OPENED)
        failed = told.epilog_exit not in (None, (0, 0))
        return Outcome(FAILED) if failed else Outcome(ENDED, "how its batch script ended, nothing tells")
    if told.epilog_exit is not None and not by_itself:
        return _ended_by_slurm(manifest, told)
    return Outcome(COMPLETED if told.batch_exit == (0, 0) else FAILED)


def _ended_by_slurm(manifest: Manifest, told: Told) -> Outcome:
    why = "Slurm ended the job before its batch script ended"
    if told.limit_s is not None and manifest.end_s is not None and manifest.end_s >= told.limit_s:
        return Outcome(TIMEOUT, f"{why}, when its time limit was reached")
    return Outcome(CANCELLED, f"{why}; what for, nothing tells")


def refused_on(nodes: str) -> str:
    """Why a job ended that was not let start on these nodes."""
    return f"the gate refused it on {nodes}"


def _without_steps(manifest: Manifest, told: Told) -> Outcome:
    if told.is_refused:
        return Outcome(ENDED, refused_on(manifest.lead_node))
    if told.epilog_exit not in (None, (0, 0)):
        return Outcome(FAILED)
    if manifest.kind == "batch":
        return Outcome(ENDED, "it was not started: its batch script never began")
    return Outcome(ENDED, "nothing tells that any of it was started here, and Slurm gives 0 for jobs that it ended too")


def _interactive(steps: Sequence[StepRecord], told: Told) -> Outcome:
    """Of a job without a batch script, whose command ran on the host of whoever submitted it."""
    if told.epilog_exit is None:
        return Outcome(ENDED, "no epilog tells its exit status")
    if told.epilog_exit != (0, 0):
        return Outcome(FAILED)
    last = steps[-1]
    if last.state != "ended" or any(one.signal for one in last.exits):
        return Outcome(ENDED, "a signal ended its last step, and Slurm gives 0 for jobs that it ended too")
    return Outcome(COMPLETED)


def _notice(manifest: Manifest, outputs: Sequence[bytes]) -> Outcome | None:
    """What slurmstepd wrote into the output of this attempt, if that is what it is."""
    for output in outputs:
        for match in reversed(list(_NOTICE.finditer(output[-_NOTICE_WITHIN_BYTES:]))):
            text, job_id, time_text, reason = match.groups(b"")
            if job_id.decode() not in (manifest.job_id, manifest.printed_id) or _is_earlier(manifest, time_text):
                continue
            word = next((word for start, word in _REASONS.items() if reason.startswith(start)), "")
            if not word and reason.startswith(_OTHER_SIGNAL):
                continue
            return Outcome(word or CANCELLED, f"its output says {text.decode(errors='surrogateescape')}")
    return None


def _is_earlier(manifest: Manifest, time_text: bytes) -> bool:
    """Whether that was before the attempt began; slurmstepd writes the node's local time."""
    try:
        at_s = datetime.datetime.fromisoformat(time_text.decode()).timestamp()
    except (ValueError, OverflowError):
        return False
    return manifest.start_s is not None and at_s < manifest.start_s - _EARLIER_S
