# SPDX-License-Identifier: Apache-2.0
"""The six stories: what goes wrong, and how it must end. Each raises StoryError where it goes another way."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from demo import plain_slurm
from demo.job import NUMPY, NUMPY_WITHOUT_GPUS, TORCH, Program
from demo.phases import Phase, requeued, resumed, table
from demo.stage import Stage

# The step runs on n1, n2 and n3 of a job on n1 to n4 (splice: n1 to n3); the batch host is n1.
_BATCH_HOST, _VICTIM, _OUTSIDE = "n1", "n3", "n4"
_PAUSED = "--pause 0.02"
_GOODBYE_S = 0.2
_XID = "replace: XID 79, GPU has fallen off the bus"


@dataclass(frozen=True)
class Story:
    """`plot` says beforehand what will happen, `options` are the program's, `tell` plays it to its end and returns the
    closing lines."""

    plot: str
    tell: Callable[[Stage], str]
    options: str = f"--steps 450 {_PAUSED}"
    program: Program = NUMPY
    num_nodes: int = 6
    gpus_per_node: int = 2
    slurm_conf: Mapping[str, str] = field(default_factory=dict)


def _train_for_a_while(stage: Stage) -> None:
    """Until something is there to lose."""
    stage.until("the training runs and has a checkpoint", lambda: stage.training.checkpoint >= 100, 60)
    stage.look_on(0.5)


def _trains_again(stage: Stage, lost: str, within_s: float) -> float:
    """Waits for the second attempt and checks it; the Unix time since when all ranks train again."""
    stage.until("all ranks train again", lambda: stage.training.trains(1), within_s)
    attempt = stage.training.attempts[1]
    saved = stage.saved_at_fault
    stage.check(attempt.from_step >= saved, f"it goes on from step {saved} at least", attempt.from_step)
    stage.check(attempt.ranks == 3, "three ranks", attempt.ranks)
    nodes = stage.nodes(1)
    stage.check(lost not in nodes and len(nodes) == 3, f"three nodes without {lost}", nodes)
    assert attempt.all_train_at is not None
    return attempt.all_train_at


def _closing(stage: Stage, phases: list[Phase], plain: Callable[[float], str]) -> str:
    total_s = sum(phase.seconds for phase in phases)
    attempt = stage.training.attempts[1]
    went_on = f"The training went on from its checkpoint of step {attempt.from_step} on {attempt.nodes}."
    return f"{went_on} Where the time went:\n{table(phases)}\n\n{plain(total_s)}"


def _ends_on_the_spare(stage: Stage, again_at: float, plain: Callable[[float], str]) -> str:
    """The end of all stories in which the job has a spare node for the step."""
    _ends_by(stage, "spare")
    phases = resumed(
        stage.job.journal(), stage.fault_at, again_at, "the node has left the job, the old tasks are gone", "numpy"
    )
    return _closing(stage, phases, plain)


def _ends_by(stage: Stage, strategy: str) -> None:
    """The training ends well, after one recovery by that strategy."""
    stage.until_ended("COMPLETED")
    stage.check(stage.training.done > 0, "the training is done", "its last line is missing")
    stage.check(list(stage.training.attempts) == [0, 1], "two attempts", list(stage.training.attempts))
    choice = next(record for record in stage.job.journal() if record["event"] == "choice")
    stage.check(choice["strategy"] == strategy, f"the strategy was {strategy}", choice)


def node(stage: Stage) -> str:
    """A node loses its power."""
    _train_for_a_while(stage)
    with stage.fault(f"power off {_VICTIM}: nobody on it says a last word"):
        stage.lab.power_off(_VICTIM)
    return _ends_on_the_spare(stage, _trains_again(stage, _VICTIM, 60), plain_slurm.after_node)


def gpu(stage: Stage) -> str:
    """A GPU fails under a rank, which hangs; the node itself is well."""
    _train_for_a_while(stage)
    with stage.fault(f"a GPU of {_VICTIM} fails: its rank hangs, and all others wait for it"):
        for pid in _tasks(stage, _VICTIM):
            os.kill(pid, signal.SIGSTOP)
    stage.look_on(2)
    with stage.fault(f"the administrator's health check writes /run/stepguard/fault on {_VICTIM}: {_XID}"):
        write = 'mkdir -p /run/stepguard && echo "$1" > /run/stepguard/fault'
        stage.lab.run(["sh", "-c", write, "sh", _XID], host=_VICTIM, user="root")
    return _ends_on_the_spare(stage, _trains_again(stage, _VICTIM, 60), plain_slurm.after_gpu)


def link(stage: Stage) -> str:
    """A node's cable is cut and mended while the training goes on without the node."""
    _train_for_a_while(stage)
    with stage.fault(f"cut the cable of {_VICTIM}: its tasks live on, and hear nothing"):
        stage.lab.cut_link(_VICTIM)
    again_at = _trains_again(stage, _VICTIM, 60)
    stage.look_on(1)
    old = _tasks(stage, _VICTIM)
    stage.check(bool(old), f"the old rank on {_VICTIM} is still there, cut off", old)
    stage.screen.say("fault", f"mend the cable of {_VICTIM}; its old rank (process {old[0]}) still runs there")
    stage.lab.heal_link(_VICTIM)
    stage.until("the old rank ends", lambda: not set(old) & stage.lab.processes(_VICTIM).keys(), 30)
    stage.screen.say("demo", f"the old rank on {_VICTIM} is gone")
    return _ends_on_the_spare(stage, again_at, plain_slurm.after_link)


def batch_host(stage: Stage) -> str:
    """The first node dies, and with it the batch script, srun and the supervisor."""
    _train_for_a_while(stage)
    with stage.fault(f"power off {_BATCH_HOST}: with it go the batch script, srun and stepguard's supervisor"):
        stage.lab.power_off(_BATCH_HOST)
    again_at = _trains_again(stage, _BATCH_HOST, 120)
    stage.until_ended("COMPLETED")
    events = [record["event"] for record in stage.job.journal()]
    stage.check("batch-host-lost" in events, "a node's watch has requeued the job, before Slurm did", events)
    return _closing(stage, requeued(stage.job.journal(), stage.fault_at, again_at), plain_slurm.after_batch_host)


def splice(stage: Stage) -> str:
    """A node goes down, the job has no other, and for its GPUs Slurm does not let it grow.

    Its kernel still closes the connections, so that the program fails on the healthy nodes before anybody knows why.
    """
    _train_for_a_while(stage)
    with stage.fault(
        f"{_VICTIM} goes down, and its rank's connections with it; {_OUTSIDE} is idle, outside of the job"
    ):
        for pid in _processes(stage, _VICTIM, "slurm", stage.job.program.file):
            os.kill(pid, signal.SIGKILL)
        time.sleep(_GOODBYE_S)
        stage.lab.power_off(_VICTIM)
    again_at = _trains_again(stage, _VICTIM, 60)
    _ends_by(stage, "splice")
    _ranks_stayed(stage)
    raised = [line for line in stage.output if "onnection" in line and "RuntimeError: " in line]
    stage.check(bool(raised), "gloo raised an error in a survivor", raised)
    losses = stage.training.losses
    stage.check(sorted(losses.values(), reverse=True) == list(losses.values()), "the loss only falls", losses)
    from_step = stage.training.attempts[1].from_step
    saved, later = max(step for step in losses if step <= from_step), min(step for step in losses if step > from_step)
    replaced = f"a helper job has brought {_OUTSIDE}, {_VICTIM} has left the job, the old tasks are gone"
    phases = resumed(stage.job.journal(), stage.fault_at, again_at, replaced, "torch")
    return (
        f"The survivors kept their ranks and found their own checkpoints, {_OUTSIDE} has the rank of {_VICTIM}.\n"
        f"The loss went on, {losses[saved]} at step {saved} and {losses[later]} at step {later}.\n"
        f"{_closing(stage, phases, plain_slurm.after_node_without_spare)}"
    )


def _ranks_stayed(stage: Stage) -> None:
    """Checks that each rank is where it was, next to the checkpoint that it left there, and the lost one outside."""
    before, after = (stage.training.attempts[number] for number in (0, 1))
    expected = {rank: _OUTSIDE if node == _VICTIM else node for rank, node in before.places.items()}
    stage.check(after.places == expected, f"ranks on {expected}", after.places)
    for rank, origin in after.origins.items():
        begins = "no checkpoint" if after.places[rank] == _OUTSIDE else "its own checkpoint"
        stage.check(origin.startswith(begins), f"rank {rank} has {begins}", origin)


def application(stage: Stage) -> str:
    """The program raises an error on healthy nodes."""
    stage.until_ended("FAILED")
    told = [line for line in stage.output if line.startswith("[Auto Resume]") and "Not resumed: application" in line]
    stage.check(len(told) == 1, "one line says why it was not resumed", told)
    stage.check(list(stage.training.attempts) == [0], "one attempt", list(stage.training.attempts))
    return f"The verdict, as its user reads it:\n  {told[0]}\n\n{plain_slurm.after_application()}"


def _tasks(stage: Stage, host: str) -> list[int]:
    """The training's processes on a host, as numbered on this side."""
    return _processes(stage, host, stage.job.program.file)


def _processes(stage: Stage, host: str, *words: str) -> list[int]:
    """The processes on a host whose command has one of the words, oldest first."""
    found = stage.lab.processes(host).items()
    return sorted(pid for pid, command in found if any(word in command for word in words))


STORIES = {
    "node": Story("one of its nodes loses its power; the step goes on on the spare one.", node),
    "gpu": Story("a GPU dies under a rank, and the training hangs; the step goes on on the spare node.", gpu),
    "link": Story(
        "a node's cable is cut, and mended later; the step goes on without it.", link, f"--steps 900 {_PAUSED}"
    ),
    "batch-host": Story(
        "the node of the batch script dies; the job is requeued and goes on elsewhere.\n"
        "Slurm's own timeouts are short in this lab (SlurmdTimeout=20, cred_expire=5), or you would wait for minutes.",
        batch_host,
        # With GPUs, stepguard leaves the requeue to Slurm 22.05, which would lose them (resume/watching.py).
        program=NUMPY_WITHOUT_GPUS,
        gpus_per_node=0,
        slurm_conf={"SlurmdTimeout": "20", "AuthInfo": "cred_expire=5"},
    ),
    "splice": Story(
        "a node goes down and the job has no spare; PyTorch goes on over two jobs.",
        splice,
        program=TORCH,
        num_nodes=4,
    ),
    "application": Story(
        "the program fails by itself; it is not resumed.", application, f"--steps 450 --fail-at 130 {_PAUSED}"
    ),
}
