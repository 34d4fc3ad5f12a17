# SPDX-License-Identifier: Apache-2.0
"""Recovery at default settings: three GPU nodes train, the third breaks. One after the other in each round: a spare in
the job takes its place, an idle node from outside does, the job goes back into the queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from bench.budgets import AFTER_DETECTION_S, GPU_RECOVERY_S, RECOVERY_S, SPLICE_AFTER_DECISION_S, SPLICE_S
from bench.figures import figure
from bench.journals import Events, by_attempt
from bench.phases import Bounds, Phases, phases, rows
from bench.site import Site
from bench.table import Row
from guarded import Job, new_job, until
from lab import Cluster, LabError
from sick import hang, kernel, sick_lab

_NODES = 4
_BROKEN = "n3"
_HEARTBEAT_S = 1.0  # the default of [resume] heartbeat_s
_WARM_STEPS = 40
_STEPS = 100_000
_WITHIN_S = 30.0
# Slurm delays a requeued job by the lifetime of a credential (120 s) and starts it in one of its next passes. One that
# still has the dead node waits until that is DOWN (SlurmdTimeout, 300 s in the lab as by default) before.
_REQUEUED_WITHIN_S = 900.0
_REQUEUED_POLL_S = 1.0


class Story(NamedTuple):
    """A way to recover: how the node breaks, how many nodes the job has, and which strategy is expected."""

    part: str
    break_node: Callable[[Cluster, str], None]
    job_nodes: int
    strategy: str
    bounds: Bounds = Bounds()
    resume: str = ""
    by_agent: bool = False  # whether an agent on each node tells of the fault


def fail_gpu(lab: Cluster, node: str) -> None:
    """The program hangs on the node, as under a GPU that is gone, and somebody on the node tells of the fault."""
    hang(lab, node)
    fault_file = lab.root(node) / "run/stepguard/fault"
    fault_file.parent.mkdir(exist_ok=True)
    fault_file.write_text("replace: XID 79, GPU has fallen off the bus\n")


def fall_off_the_bus(lab: Cluster, node: str) -> None:
    """The same, but it is the node's kernel that tells of it, by an XID 79, and the agent that reads that."""
    hang(lab, node)
    kernel(lab, node).xid(79)


_STORIES = (
    Story("spare: node powered off", Cluster.power_off, 4, "spare", Bounds(RECOVERY_S, AFTER_DETECTION_S)),
    Story("spare: GPU fault, program hangs", fail_gpu, 4, "spare", Bounds(GPU_RECOVERY_S)),
    Story("spare: XID 79, program hangs", fall_off_the_bus, 4, "spare", Bounds(GPU_RECOVERY_S), by_agent=True),
    Story("splice: node powered off", Cluster.power_off, 3, "splice", Bounds(SPLICE_S, None, SPLICE_AFTER_DECISION_S)),
)
_REQUEUE = Story("requeue: node powered off", Cluster.power_off, 3, "requeue", resume='strategies = ["requeue"]')


def measure(site: Site) -> Iterable[Row]:
    """The rows of this part. A requeue is followed only until Slurm has the job back; see `measure_requeue`."""
    rounds = site.rounds(5, 1)
    taken: dict[Story, list[Phases]] = {story: [] for story in _STORIES}
    requeued: list[dict[str, float]] = []
    for number in range(rounds):
        pause_s = _HEARTBEAT_S * number / rounds  # in each round another moment between two heartbeats
        for story in _STORIES:
            taken[story].append(recover(site, story, pause_s))
        requeued.append(requeue(site, pause_s))
    for story in _STORIES:
        yield from rows(story.part, taken[story], story.bounds)
    for what in requeued[0]:
        yield Row(_REQUEUE.part, what, "s", figure([one[what] for one in requeued]))


def measure_requeue(site: Site) -> Iterable[Row]:
    """The whole of a requeue with Slurm's own waits, once: three minutes."""
    taken = [recover(site, _REQUEUE, 0.0, _await_requeued) for _ in range(site.rounds(1, 1))]
    yield from rows(_REQUEUE.part + ", to its end", taken, _REQUEUE.bounds)


def _await_resumed(job: Job) -> None:
    job.await_steps(1, attempt=1, within_s=_WITHIN_S)


def _await_requeued(job: Job) -> None:
    """Waits long; raises LabError when the job ends meanwhile."""
    ended = ("COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL")
    until(
        "the step's next attempt",
        lambda: job.progress()[-1]["attempt"] == "1" or job.state() in ended,
        _REQUEUED_WITHIN_S,
        _REQUEUED_POLL_S,
    )
    if job.progress()[-1]["attempt"] != "1":
        raise LabError(f"the requeued job is {job.state()}:\n{job.out()}")


def recover(site: Site, story: Story, pause_s: float, await_resumed: Callable[[Job], None] = _await_resumed) -> Phases:
    """One recovery in a lab of its own, its node broken `pause_s` after the step has run for a while."""
    with sick_lab(_NODES) if story.by_agent else site.lab(_NODES, gpus_per_node=2) as lab:
        job, fault_at = _break(lab, story, pause_s)
        await_resumed(job)
        return phases(_journal(job, story), fault_at, job.ranks(1))


def requeue(site: Site, pause_s: float) -> dict[str, float]:
    """Seconds until `scontrol requeue` was done, in all and by phase."""
    with site.lab(_NODES, gpus_per_node=2) as lab:
        job, fault_at = _break(lab, _REQUEUE, pause_s)
        until("the requeue", lambda: any(record["event"] == "choice" for record in job.journal()), _WITHIN_S)
        journal = _journal(job, _REQUEUE)
    end, choice = journal["end", 0], journal["choice", 0]
    return {
        "fault → job handed back to Slurm, which then waits": choice["time"] - fault_at,
        "  detect": end["time"] - end["decide_s"] - fault_at,
        "  decide": end["decide_s"],
        "  replace": choice["time"] - end["time"],
    }


def _break(lab: Cluster, story: Story, pause_s: float) -> tuple[Job, float]:
    """A job whose node has just been broken, and when that was."""
    job = new_job(lab, resume=story.resume)
    step = f"srun --auto-resume=1 -N3 -n3 --gres=gpu:2 {job.ring(_STEPS)}"
    job.submit(step, f"-N{story.job_nodes}", "--exclusive", "--gres=gpu:2")
    job.await_steps(_WARM_STEPS)
    time.sleep(pause_s)
    fault_at = time.time()
    story.break_node(lab, _BROKEN)
    return job, fault_at


def _journal(job: Job, story: Story) -> Events:
    """The job's journal. Raises LabError when another strategy was taken."""
    journal = by_attempt(job.journal())
    if (taken := journal["choice", 0]["strategy"]) != story.strategy:
        raise LabError(f"{story.part}: recovered by {taken or 'nothing'}, not by {story.strategy}")
    return journal
