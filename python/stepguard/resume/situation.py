# SPDX-License-Identifier: Apache-2.0
"""What a strategy may look at and do after an attempt was lost to its hardware."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from stepguard.config import Resume
from stepguard.errors import SlurmError, SlurmRefused
from stepguard.resume.helper_job import HelperJob
from stepguard.resume.layout import Layout
from stepguard.resume.messages import Messages
from stepguard.resume.watch_step import WatchStep
from stepguard.slurm.protocol import SlurmClient
from stepguard.slurm.records import ClusterConfig, Job
from stepguard.slurm.srun_arguments import SrunCommand


@dataclass
class Situation:
    """The job without its bad nodes, and the step that wants to go on.

    `step_nodes` are those of the lost attempt, `bad` those of them (or of the job) that must not be used again,
    `lost` the bad ones that are out of reach, `usable` the job's nodes that are healthy and that no other step
    uses, survivors of the lost attempt first, among them nodes of its `helpers`, jobs that lend the step nodes; splice
    adds one. `deadline_s`: seconds until the job has too little time left, None without a limit. `layout` is which
    ranks were where, None where that is unknown; `have_plugin` says whether the plugin works on those nodes.
    `end_attempt` ends what is left of the lost attempt. `pause` waits for so many seconds while signals are served, and
    says whether to go on waiting. `open_watch` makes the watch of nodes of a helper, by its id, or ("") of the job.
    `tell_job` hears of the job whenever Slurm was asked for it.
    """

    slurm: SlurmClient
    cluster: ClusterConfig
    config: Resume
    job: Job
    command: SrunCommand
    step_nodes: tuple[str, ...]
    bad: tuple[str, ...]
    lost: frozenset[str]
    usable: tuple[str, ...]
    deadline_s: float | None
    messages: Messages
    pause: Callable[[float], bool]
    end_attempt: Callable[[], bool]
    helpers: list[HelperJob]
    layout: Layout | None
    have_plugin: Callable[[tuple[str, ...]], bool]
    open_watch: Callable[[str, tuple[str, ...]], WatchStep]
    tell_job: Callable[[Job], None]
    began_s: float = field(default_factory=time.monotonic)

    @property
    def missing(self) -> int:
        """How many nodes the step lacks."""
        return max(0, len(self.step_nodes) - len(self.usable))

    @property
    def batch_host_lost(self) -> bool:
        """The batch host cannot be left out of a batch job: without it the job is headless."""
        return self.job.is_batch and self.job.batch_host in self.lost

    def in_order(self, nodes: tuple[str, ...]) -> tuple[str, ...]:
        """The same nodes as Slurm orders them, those of helper jobs behind the job's own."""
        lent = (name for helper in self.helpers for name in helper.nodes)
        return tuple(name for name in (*self.job.nodes, *lent) if name in nodes)

    def drop_bad_nodes(self) -> None:
        """Gives the bad nodes back to Slurm; then ends the attempt."""
        self.shrink()
        self.end_attempt()

    def shrink(self) -> None:
        """Gives the bad nodes back to Slurm, so that their death does not take the job along.

        The batch host of a batch job stays: Slurm never lets go of it. A refusal is told and not fatal: the job
        goes on with the node in it, until Slurm itself notices.
        """
        kept_for_slurm = {self.job.batch_host} if self.job.is_batch else set()
        dropped = [name for name in self.bad if name in self.job.nodes and name not in kept_for_slurm]
        if dropped:
            self._shrink_without(dropped)
            self.refresh()

    def _shrink_without(self, dropped: list[str]) -> None:
        kept = [name for name in self.job.nodes if name not in dropped]
        try:
            self.slurm.keep_nodes(self.job.id, kept)
        except SlurmRefused as refused:
            self.messages.error(f"the job keeps {','.join(dropped)}, Slurm says: {refused}")
            return
        self.messages.info(f"Successfully shrink job to retain healthy nodes {','.join(kept)}")

    def refresh(self) -> None:
        """Asks Slurm for the job again."""
        self.job = self.slurm.job(self.job.id)
        self.tell_job(self.job)


def told(error: SlurmError) -> str:
    """An error of Slurm as the reason why a strategy failed."""
    return f"Slurm says: {error}"
