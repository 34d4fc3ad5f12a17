# SPDX-License-Identifier: Apache-2.0
"""The messages of one attempt on one node, folded into the node's part of the record and the lead node's manifest.

Pure: the same messages give the same record, however often and wherever they are folded. The lead node is the one that
ran the batch script; without one, the first of the job's nodes. Who was told neither does not lead: a node that left a
shrunk job before its prolog ran (without `PrologFlags=Alloc`) knows of nothing but its end.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stepguard.archive import health, job
from stepguard.archive.outcome import GATE, Told
from stepguard.archive.steps import arguments, cut_argv, fold_steps, own_nodes, step_of
from stepguard.archive.timeline import Event, Message, in_order
from stepguard.records import wire
from stepguard.records.manifest import FindingRecord, Manifest, Missing, NodeRecord, StepRecord
from stepguard.records.spool import AttemptKey

FINDINGS_MAX = 1000
CLOCK_SET = "clock-set"
_BEGINNINGS = ("prolog", "batch", "step_start")
# What the agent says in `closed`, the last message of an attempt that did not tell its end.
_WHY_CLOSED = {
    "reboot": "the node was started anew in the middle of it",
    "superseded": "a later attempt of the job began here, and none told of the end of this one",
    "no-epilog": "its batch script ended, and no epilog told of its end",
    "no-slurmstepd": "no slurmstepd of it lives on the node, and none told of its end",
    "": "no epilog told of its end",
}


class Folded(NamedTuple):
    """A node's part, and on the lead node the manifest, still without files. `events` are what they were made of.
    `cluster` is "" where no hook told it.

    `since_s` is the time whose day the record lies under: the start of the attempt, else the first that is known of it.
    `begins`: the messages tell that the attempt began; without, they may be what came after a record was finished.
    `told` is what speaks for an outcome, without the outputs.
    """

    events: list[Event]
    cluster: str
    node: NodeRecord
    manifest: Manifest | None
    uid: int | None
    gid: int | None
    since_s: float
    begins: bool
    told: Told = Told(None, None)


def fold(messages: Iterable[Message], key: AttemptKey, here: str, over: bool) -> Folded:
    """`here` names the node where no message does, `over` says that no more messages will come."""
    timeline = in_order(messages)
    events = timeline.events
    environments = job.Environments.of(events)
    state, why = _state(events, over)
    node = NodeRecord(job.node_name(events) or here, str(key.job_id), key.attempt, state)
    node.boot_id = next((wire.text(one.fields, "boot_id") for one in reversed(events) if one.kind in job.FROM_ROOT), "")
    node.gpus = environments.hooks.get("SLURM_JOB_GPUS", "")
    node.steps, missing = fold_steps(events, over)
    node.start_s = _start_s(events, environments)
    node.end_s = _end_s(events) if state == "ended" else None
    node.last_heard_s = _last_heard_s(events) if state == "lost" else None
    node.missing = [*_missing(events, node, over, why), *missing]
    node.health = health.told(events)
    node.findings = _findings(events, node, timeline.clock_steps_s)
    uid, gid = job.owner(events)
    folded = Folded(
        events,
        job.cluster_name(environments),
        node,
        None,
        uid,
        gid,
        node.start_s or next((event.at_s for event in events if event.at_s is not None), 0.0),
        any(event.kind in ("prolog", "batch") for event in events),
    )
    nodes = job.nodes_of(node.node, events, environments)
    own_nodes(node.steps, nodes.names)
    if not _is_lead(node.node, events, nodes):
        return folded
    is_refused = any(one.code == GATE for one in node.findings)
    told = Told(_batch_exit(node.steps), job.exit_codes(environments)[0], (), job.limit_s(environments), is_refused)
    folded = folded._replace(told=told)
    return folded._replace(manifest=_manifest(folded, key, environments, nodes))


def _is_lead(node: str, events: Sequence[Event], nodes: job.Nodes) -> bool:
    if any(event.kind == "batch" for event in events):
        return True
    return nodes.are_all and nodes.names[0] == node


def _state(events: Sequence[Event], over: bool) -> tuple[str, str]:
    """The state of the node's part, and why it was lost where it was."""
    if not over:
        return "running", ""
    begun = [event.boot for event in events if event.kind in _BEGINNINGS]
    ended = [event.boot for event in events if event.kind == "epilog"]
    closed = next((wire.text(event.fields, "why") for event in events if event.kind == "closed"), "")
    rebooted = begun and ended and max(ended) > max(begun)  # the epilog of a job whose node came back
    if ended and not rebooted:
        return "ended", ""
    if any(event.kind == "step_end" and step_of(event) == "batch" for event in events):
        return "ended", ""
    return "lost", _WHY_CLOSED.get("reboot" if rebooted else closed, closed)


def _start_s(events: Sequence[Event], environments: job.Environments) -> float | None:
    for kinds in (("prolog",), _BEGINNINGS):
        if found := [event.at_s for event in events if event.kind in kinds and event.at_s is not None]:
            return found[0]
    told = environments.hooks.get("SLURM_JOB_START_TIME", "")  # since 23.02
    return float(told) if told.isascii() and told.isdigit() and 0 < len(told) <= 11 and int(told) else None


def _end_s(events: Sequence[Event]) -> float | None:
    for kind in ("epilog", "step_end"):
        if found := [event.at_s for event in events if event.kind == kind and event.at_s is not None]:
            return found[0] if kind == "epilog" else found[-1]
    return None


def _last_heard_s(events: Sequence[Event]) -> float | None:
    """When the last message of it came; what comes after the node has booted again tells of its end, not of it."""
    begun_in = [event.boot for event in events if event.kind in _BEGINNINGS]
    heard = [event for event in events if event.kind != "closed" and event.boot <= max(begun_in, default=event.boot)]
    return max((event.at_s for event in heard if event.at_s is not None), default=None)


def _missing(events: Sequence[Event], node: NodeRecord, over: bool, why_lost: str) -> Iterable[Missing]:
    kinds = {event.kind for event in events}
    if "prolog" not in kinds:
        yield Missing("prolog", "none told of this job on this node")
    if node.start_s is None:
        yield Missing("start", "nothing that was kept tells it")
    if why_lost:
        yield Missing("end", why_lost)
    elif over and "epilog" not in kinds:
        yield Missing("epilog", "none told of this job on this node")


def _findings(events: Sequence[Event], node: NodeRecord, clock_steps_s: Sequence[float]) -> list[FindingRecord]:
    found = [
        FindingRecord(
            code=wire.text(event.fields, "code"),
            text=wire.text(event.fields, "text"),
            time_s=event.at_s,
            node=node.node,
            step_id=step_of(event),
            about=wire.text(event.fields, "variable"),
        )
        for event in events
        if event.kind == "finding"
    ]
    for step_s in clock_steps_s:
        text = f"the node's clock was set by {step_s:+.1f} s during the job; times count on from before"
        found.append(FindingRecord(CLOCK_SET, text, None, node.node))
    if node.health is not None:
        found += health.findings(node.health, node.node)
    return found[:FINDINGS_MAX]


def _manifest(folded: Folded, key: AttemptKey, environments: job.Environments, nodes: job.Nodes) -> Manifest:
    node, kinds = folded.node, {event.kind for event in folded.events}
    found = Manifest(folded.cluster, node.job_id, node.attempt, _kind(node.steps, kinds), node.state)
    ids = job.array_and_het(folded.events, environments, key.job_id)
    for name, value in {**job.facts(environments), **ids}.items():
        setattr(found, name, value)
    found.work_dir = found.work_dir or _output_work_dir(folded.events)
    found.argv = next((arguments(event) for event in folded.events if event.kind == "batch"), [])
    found.uid, found.gid = folded.uid, folded.gid
    found.node_list, found.nodes, found.lead_node = nodes.text, nodes.names, node.node
    found.start_s, found.end_s, found.steps = node.start_s, _job_end_s(node, job.ended_s(environments)), node.steps
    found.last_heard_s = node.last_heard_s
    if node.state == "ended":  # to the epilog of a lost job Slurm gives an exit that no process had, 0:1
        exits, found.derived_exit_status = job.exit_codes(environments)
        exits = folded.told.batch_exit or _exit_of(exits, node.steps)
        if exits is not None:
            found.exit_status, found.exit_signal = exits
    found.missing = [*node.missing, *_job_missing(found, folded.events, environments)]
    return found


def _kind(steps: Sequence[StepRecord], kinds: set[str]) -> str:
    """No hook tells a batch job from another (22.05 to 24.11); slurmstepd does, where the plugin is loaded."""
    if kinds & {"batch", "output"} or any(step.step_id == "batch" for step in steps):
        return "batch"
    return "interactive" if any(step.step_id != "extern" for step in steps) else "unknown"


def _output_work_dir(events: Sequence[Event]) -> str:
    return next((wire.text(event.fields, "work_dir") for event in events if event.kind == "output"), "")


def _job_end_s(node: NodeRecord, told_s: float | None) -> float | None:
    """When the job ended, which is before its epilogs, and those may be slow: when its batch script did, else when
    Slurm says (`told_s`), as far as the clocks of controller and node agree."""
    if node.end_s is None:
        return None
    ends_s = {step.step_id: step.end_s for step in node.steps if step.end_s is not None}
    if "batch" in ends_s:
        return ends_s["batch"]
    return node.end_s if told_s is None else min(node.end_s, max(told_s, node.start_s or 0.0, *ends_s.values()))


def _exit_of(told: tuple[int, int] | None, steps: Sequence[StepRecord]) -> tuple[int, int] | None:
    """That of a job without a batch script. slurmctld and srun set 1 where something failed without an exit of its own,
    which as a wait status would be SIGHUP: only where a task had that it is. Slurm's accounting takes each 1 for exit
    status 1 (as_mysql_job_complete() in as_mysql_job.c; 22.05 to 26.05, by trial)."""
    had = any(one.signal == signal.SIGHUP for step in steps for one in step.exits)
    return (1, 0) if told == (0, signal.SIGHUP) and not had else told


def _batch_exit(steps: Sequence[StepRecord]) -> tuple[int, int] | None:
    exits = [one for step in steps if step.step_id == "batch" for one in step.exits]
    return (exits[0].status, exits[0].signal) if exits else None


def _job_missing(found: Manifest, events: Sequence[Event], environments: job.Environments) -> Iterable[Missing]:
    kinds = {event.kind for event in events}
    cut = [one for event in events if event.kind == "batch" for one in cut_argv(event, "the batch script")]
    yield from cut
    if found.uid is None:
        yield Missing("owner", "nothing that root sent tells it, so the record is root's")
    if not found.nodes:
        yield Missing("node list", "neither a hook nor a step told it")
    if found.kind == "unknown" and found.state != "running":
        yield Missing(
            "name, script, output and steps",
            "no slurmstepd told of any: none ran here, or plugstack.conf does not load the plugin on this node",
        )
    elif found.kind in ("interactive", "unknown"):
        yield Missing("name", "Slurm tells it only to batch scripts")
    elif "batch" not in kinds:
        yield Missing("name, script and environment", "the batch step did not send them")
    elif not found.name and "SLURM_JOB_NAME" not in environments.batch:
        yield Missing("name", "nothing of what is kept of the job's environment tells it")
    if found.state == "ended" and found.exit_status is None:
        yield Missing("exit", "no epilog on the lead node was told it")
