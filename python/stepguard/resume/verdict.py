# SPDX-License-Identifier: Apache-2.0
"""From evidence to one verdict. Pure: everything that had to be asked was asked before.

The rule of the whole project stands here: an attempt is run again only on positive evidence that hardware (or,
if configured, the network) failed. Whatever a person or Slurm's own policy ended stays ended.
"""

from __future__ import annotations

import signal
from enum import Enum
from typing import NamedTuple

from stepguard.resume.told import HARDWARE_ACTIONS


class Cause(Enum):
    """Why an attempt ended."""

    HARDWARE = "hardware"
    NETWORK = "network"
    APPLICATION = "application"
    CANCELLED = "cancelled"
    TIME_LIMIT = "time limit"
    PREEMPTED = "preempted"
    UNKNOWN = "unknown"


class Finding(NamedTuple):
    """One sign of a fault on one node.

    `source` says who saw it (silence, slurm, fault-file, agent), `action` what the node needs (replace, reboot,
    reset-gpu, check), `lost` whether the node is out of reach: such a node cannot be asked to end anything. `device`
    and `code` are the agent's, `seen_s` when it was seen, by the monotonic clock, where that is known.
    """

    node: str
    source: str
    action: str
    text: str
    lost: bool = False
    device: str = ""
    code: str = ""
    seen_s: float | None = None


class Evidence(NamedTuple):
    """All that is known about the end of one attempt.

    `status` is srun's exit status (negative: the signal that ended srun), `started` whether it became a step.
    `standing` are faults of its nodes that were known before it began, `unwell` is all that its nodes tell of
    themselves but what is the program's own; of that `program` are faults of this run. `interrupted_by` is the signal
    with which somebody asked us to stop, None when nobody did. `job_state` is Slurm's word for a job that no longer
    runs (else empty), `step_state` accounting's word for the step (empty when it did not say). `flapped` are nodes that
    were out of reach for a while and answer again. `ended_by_us`: the attempt was given up for the findings' sake.
    `srun_cancels`: srun itself ends the step when a task fails. `blind`: nobody could be asked.
    """

    status: int
    started: bool = True
    findings: tuple[Finding, ...] = ()
    standing: tuple[Finding, ...] = ()
    unwell: tuple[str, ...] = ()
    program: tuple[Finding, ...] = ()
    interrupted_by: int | None = None
    job_state: str = ""
    step_state: str = ""
    time_left_s: float | None = None
    flapped: tuple[str, ...] = ()
    ended_by_us: bool = False
    srun_cancels: bool = False
    blind: bool = False


class Verdict(NamedTuple):
    """What the end of an attempt means; `nodes` are to blame and must not be used again."""

    cause: Cause
    why: str
    nodes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def action(self) -> str:
        """What the worst of the nodes needs: replace, reboot, reset-gpu, check, or nothing."""
        return min((finding.action for finding in self.findings), key=_weight, default="")


# Slurm's word for a job or a step → what it means for us (squeue(1), JOB STATE CODES).
_STATE_CAUSES = {
    "CANCELLED": (Cause.CANCELLED, "was cancelled"),
    "TIMEOUT": (Cause.TIME_LIMIT, "reached its time limit"),
    "DEADLINE": (Cause.TIME_LIMIT, "reached its deadline"),
    "PREEMPTED": (Cause.PREEMPTED, "was preempted"),
    "REVOKED": (Cause.CANCELLED, "was revoked"),
    "SUSPENDED": (Cause.PREEMPTED, "was suspended"),
}

# What nodes need, the most first.
_ACTIONS = (*HARDWARE_ACTIONS, "check", "restart-application", "none")

# Of what its nodes tell beside the cause, nobody wants to read more.
_UNWELL_MAX = 3
_CANCELLING = {signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM}


def gravity(finding: Finding) -> tuple[bool, int]:
    """Orders findings, the gravest first: a node that is lost before all others, for that decides what can be done."""
    return not finding.lost, _weight(finding.action)


def _weight(action: str) -> int:
    return _ACTIONS.index(action) if action in _ACTIONS else len(_ACTIONS)


def judge(evidence: Evidence) -> Verdict:
    """The one verdict on an attempt that did not end with status 0."""
    for what, state in (("the job", evidence.job_state), ("the step", evidence.step_state)):
        if what == "the step" and _not_by_a_person(evidence):
            continue
        if state in _STATE_CAUSES:
            cause, text = _STATE_CAUSES[state]
            return Verdict(cause, f"{what} {text}")
    if evidence.job_state:
        return Verdict(Cause.CANCELLED, f"Slurm has ended the job ({evidence.job_state})")
    if evidence.time_left_s is not None and evidence.time_left_s <= 0:
        return Verdict(Cause.TIME_LIMIT, "the job reached its time limit")
    if evidence.interrupted_by is not None:
        return Verdict(Cause.CANCELLED, f"stopped by {signal.Signals(evidence.interrupted_by).name}")
    if evidence.findings:
        return _of_hardware(evidence.findings)
    if evidence.step_state == "OUT_OF_MEMORY":
        return Verdict(Cause.APPLICATION, "the program was killed for its memory")
    if evidence.program:
        faults = ", ".join(dict.fromkeys(f"{finding.text} of {finding.node}" for finding in evidence.program))
        ended = _ended(evidence.status, evidence.started)
        return Verdict(Cause.APPLICATION, f"{faults}: the program's own fault; {ended}", (), evidence.program)
    if evidence.standing:  # what was seen of this very run, above, explains its end better
        return _of_hardware(evidence.standing)
    if evidence.flapped:
        return Verdict(Cause.NETWORK, "out of reach for a while: " + ", ".join(evidence.flapped))
    if evidence.blind:
        return Verdict(Cause.UNKNOWN, "neither Slurm nor the nodes could be asked")
    ended = _ended(evidence.status, evidence.started)
    if evidence.unwell:
        told = "; ".join(evidence.unwell[:_UNWELL_MAX])
        return Verdict(Cause.APPLICATION, f"{ended}; what its nodes tell is no ground to run it again: {told}")
    return Verdict(Cause.APPLICATION, f"{ended}, and its nodes are healthy")


def _of_hardware(findings: tuple[Finding, ...]) -> Verdict:
    nodes = tuple(dict.fromkeys(finding.node for finding in findings))
    why = "; ".join(f"{finding.node}: {finding.text}" for finding in findings)
    return Verdict(Cause.HARDWARE, why, nodes, findings)


def _not_by_a_person(evidence: Evidence) -> bool:
    """Whether a step that is CANCELLED in Slurm's books was so by us, by srun, or by a crash.

    The books say so of every step that a signal ended; SIGSEGV or SIGBUS is none that scancel sends. srun cancels a
    step that it cannot launch on a node that has just died, and with -K one of which a dying node's task fails first.
    scancel shows in the status, for its signal ended the tasks; so does -K.
    """
    if evidence.ended_by_us:
        return True
    by_signal = evidence.status < 0 or evidence.status - 128 in _CANCELLING
    if evidence.step_state == "CANCELLED" and 128 < evidence.status < 128 + signal.NSIG and not by_signal:
        return True
    by_srun = evidence.srun_cancels or not by_signal
    return evidence.step_state == "CANCELLED" and by_srun and any(f.lost for f in evidence.findings)


def _ended(status: int, started: bool) -> str:
    who = "the program" if started else "srun"
    if status < 0:
        return f"srun was ended by {signal.Signals(-status).name}"
    if 128 < status < 128 + signal.NSIG:
        number = status - 128
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return f"{who} was ended by {name}"
    return f"{who} ended with status {status}"
