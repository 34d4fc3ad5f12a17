# SPDX-License-Identifier: Apache-2.0
"""Asks everybody who may know why an attempt ended: its nodes, Slurm, and Slurm's accounting."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from stepguard.config import Resume
from stepguard.errors import SlurmError, SlurmRefused
from stepguard.resume.attempt import Attempt, AttemptEnd
from stepguard.resume.findings import lost_finding, program_findings, standing_findings, told_findings, unwell
from stepguard.resume.helper_job import HelperJob
from stepguard.resume.lookout import Lookout
from stepguard.resume.reach import answering
from stepguard.resume.verdict import Evidence, Finding, gravity
from stepguard.slurm.protocol import SlurmClient
from stepguard.slurm.records import Job, Node

_TURN_S = 0.02
# slurmctld sends a step's end to accounting a moment later.
_ACCOUNTING_S = 2.0
_ACCOUNTING_PAUSE_S = 0.2
# Watches that run answer sooner than this.
_ASK_KERNELS_S = 1.0
# A node that is shut down kills its tasks first and goes a moment later: where a signal ended one, it is asked twice.
_SIGNALLED = 128
_SECOND_LOOK_S = 2.0
# A program may end for a GPU's fault before the agent has read of that in the kernel's log.
_AGENT_LOOK_S = 1.0
_CONTROLLER_S = 120.0
_CONTROLLER_PAUSE_S = 1.0
_UNFINISHED = (None, "RUNNING", "PENDING", "COMPLETING", "")


def gather(
    slurm: SlurmClient,
    config: Resume,
    job: Job,
    attempt: Attempt,
    end: AttemptEnd,
    helpers: Sequence[HelperJob],
    ended_by_watch: Callable[[str], bool],
    srun_cancels: bool,
    pause: Callable[[float], bool],
) -> tuple[Evidence, Job | None]:
    """The evidence on an attempt that did not end well, and the job as Slurm has it now (None: Slurm is silent).

    `ended_by_watch` says of a helper job whether a watch ended it, `srun_cancels` that srun ends a step of which one
    task has failed. A slurmctld that is being restarted is waited for where hardware failed; `pause` waits, and says
    whether to go on.
    """
    nodes = end.step_nodes or job.nodes
    findings = list(end.findings)
    job_now, states = _await_slurm(slurm, job, nodes, pause if findings else None)
    over = end.interrupted_by is not None or (job_now is not None and job_now.state != "RUNNING")
    try:
        watch = attempt.watch
    except SlurmError:
        return Evidence(end.status, interrupted_by=end.interrupted_by, blind=True), job_now
    helper_state = ""
    helper_ended = False
    if not findings and not over:
        findings += _ask_nodes(watch, nodes, config)
        look_again_s = _second_look_s(attempt, end, nodes)
        if not findings and look_again_s and pause(look_again_s):
            findings += _ask_nodes(watch, nodes, config)
        ended, helper_state = _ask_helpers(slurm, helpers, ended_by_watch)
        findings += ended
        helper_ended = bool(ended)  # its step is CANCELLED in the books, by whomever its job was ended
    findings += [finding for node in states if (finding := node_finding(node, config)) is not None]
    attempt.listen()
    # Where the nodes of the step are not known, a fault of any other of the job's says nothing of it.
    standing = standing_findings(watch, end.step_nodes)
    ended_by_us = bool(end.findings)
    step_state: str | None = helper_state
    if not ended_by_us and not over and attempt.started and not helper_state and not helper_ended:
        step_state = _ask_of_failed_part(slurm, attempt, end.status, patient=bool(findings or standing))
    attempt.listen()
    evidence = Evidence(
        status=end.status,
        started=attempt.started,
        findings=_one_a_node(findings),
        standing=_one_a_node(standing),
        unwell=unwell(watch, nodes),
        program=program_findings(watch, nodes, attempt.began_s),
        interrupted_by=end.interrupted_by,
        job_state=job_now.state if job_now and job_now.state != "RUNNING" else "",
        step_state=step_state or "",
        time_left_s=job_now.time_left_s if job_now else None,
        flapped=tuple(name for name in watch.pulse.flapped() if name in nodes),
        ended_by_us=ended_by_us,
        srun_cancels=srun_cancels,
        blind=job_now is None and not watch.runs(),
    )
    return evidence, job_now


def _await_slurm(
    slurm: SlurmClient, job: Job, nodes: tuple[str, ...], pause: Callable[[float], bool] | None
) -> tuple[Job | None, list[Node]]:
    """What Slurm says; with `pause`, a slurmctld that does not answer is waited for."""
    end_s = time.monotonic() + _CONTROLLER_S
    job_now, states = _ask_slurm(slurm, job, nodes)
    while job_now is None and pause is not None and time.monotonic() < end_s and pause(_CONTROLLER_PAUSE_S):
        job_now, states = _ask_slurm(slurm, job, nodes)
    return job_now, states


def _ask_of_failed_part(slurm: SlurmClient, attempt: Attempt, status: int, patient: bool) -> str | None:
    """What accounting says of the part that failed first: the others may still run, or have failed for want of it."""
    part = next((part for part in attempt.parts if part.status() == status), attempt.parts[0])
    return _ask_accounting(slurm, part.plan.job_id, part.step.id if part.step else "", patient=patient)


def _second_look_s(attempt: Attempt, end: AttemptEnd, nodes: tuple[str, ...]) -> float:
    """How long to wait until the nodes are asked once more; 0 where they have said all."""
    if end.status < 0 or end.status > _SIGNALLED:
        return _SECOND_LOOK_S
    watch = attempt.watch
    told = program_findings(watch, nodes, attempt.began_s)
    return _AGENT_LOOK_S if watch.pulse.with_agent(nodes) and not told else 0


def _ask_nodes(watch: Lookout, nodes: tuple[str, ...], config: Resume) -> list[Finding]:
    """Every node answers now, or is lost: a program that fails because a peer died must not be faster than we are.

    Where a watch says nothing, because it does not run, the answer of the node's kernel has to do. A node of which
    neither comes is lost, also when it died before the watch had ever heard it.
    """
    begin_s = time.monotonic()
    watch.tick(begin_s)
    seq = watch.ping()
    alive: set[str] = set()
    silent = list(nodes)
    while silent and time.monotonic() - begin_s < config.silence_s + config.probe_s:
        if time.monotonic() - begin_s > _ASK_KERNELS_S:
            alive |= answering({name: watch.pulse.place(name) for name in silent}, config.probe_s)
        time.sleep(_TURN_S)
        watch.read()
        watch.tick(time.monotonic())
        silent = [name for name in watch.pulse.unanswered(seq, nodes) if name not in alive]
    lost = [name for name in nodes if name in silent or name in watch.pulse.lost()]
    if lost and not watch.own_link_works():
        lost = []
    return [lost_finding(name) for name in lost] + list(told_findings(watch, nodes))


def _ask_helpers(
    slurm: SlurmClient, helpers: Sequence[HelperJob], ended_by_watch: Callable[[str], bool]
) -> tuple[list[Finding], str]:
    """Helpers that Slurm has taken from us are lost like their nodes; one that a person cancelled ends the step.

    That is told by the second value, CANCELLED in the words of accounting.
    """
    findings: list[Finding] = []
    for helper in helpers:
        try:
            state = slurm.job(helper.id).state
        except SlurmRefused:
            state = "gone"
        except SlurmError:
            continue
        if state == "CANCELLED" and not ended_by_watch(helper.id):
            return [], state
        if state not in ("RUNNING", "CONFIGURING"):
            text = f"its helper job {helper.id} has ended ({state})"
            findings += [Finding(name, "helper", "check", text) for name in helper.nodes]
    return findings, ""


def _ask_slurm(slurm: SlurmClient, job: Job, nodes: tuple[str, ...]) -> tuple[Job | None, list[Node]]:
    try:
        return slurm.job(job.id), slurm.nodes(nodes)
    except SlurmError:
        return None, []


def _ask_accounting(slurm: SlurmClient, job_id: str, step_id: str, patient: bool) -> str | None:
    """Whether somebody cancelled the step is known to accounting only; worth waiting for before a resume."""
    end_s = time.monotonic() + (_ACCOUNTING_S if patient else 0)
    state = slurm.step_accounting(job_id, step_id)
    while state in _UNFINISHED and time.monotonic() < end_s:
        time.sleep(_ACCOUNTING_PAUSE_S)
        state = slurm.step_accounting(job_id, step_id)
    return state


def node_finding(node: Node, config: Resume) -> Finding | None:
    """What Slurm's own state of a node says about its hardware; None when it says nothing of the kind.

    FAIL and DOWN always count, DRAIN only with a reason that names hardware: nodes are drained for many reasons.
    """
    said = f" ({node.reason})" if node.reason else ""
    if node.states & {"DOWN", "ERROR"}:
        return Finding(node.name, "slurm", _action(node.reason), f"DOWN in Slurm{said}", lost=True)
    if node.states & {"FAIL", "FAILING"}:
        return Finding(node.name, "slurm", _action(node.reason), f"FAIL in Slurm{said}")
    if node.states & {"DRAIN", "DRAINING", "DRAINED"} and any(
        re.search(pattern, node.reason, re.IGNORECASE) for pattern in config.hardware_reasons
    ):
        return Finding(node.name, "slurm", _action(node.reason), f"DRAIN in Slurm{said}")
    return None


def _action(reason: str) -> str:
    return "reboot" if "Action:Reboot" in reason else "replace"


def _one_a_node(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """One finding a node, the gravest."""
    first: dict[str, Finding] = {}
    for finding in sorted(findings, key=gravity):
        first.setdefault(finding.node, finding)
    return tuple(first.values())
