# SPDX-License-Identifier: Apache-2.0
"""What a strategy may look at and do after an attempt was lost to its hardware."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stepguard.config import Resume
from stepguard.errors import SlurmError, SlurmRefused
from stepguard.resume.messages import Messages
from stepguard.slurm.protocol import SlurmClient
from stepguard.slurm.records import ClusterConfig, Job
from stepguard.slurm.srun_arguments import SrunCommand


@dataclass
class Situation:
    """The job without its bad nodes, and the step that wants to go on.

    `step_nodes` are those of the lost attempt, `bad` those of them (or of the job) that must not be used again,
    `lost` the bad ones that are out of reach, `usable` the job's nodes that are healthy and that no other step
    uses, survivors of the lost attempt first. `deadline_s`: seconds until the job has too little time left, None
    without a limit. `end_attempt` ends what is left of the lost attempt. `pause` waits for so many seconds while
    signals are served, and says whether to go on waiting.
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

    @property
    def missing(self) -> int:
        """How many nodes the step lacks."""
        return max(0, len(self.step_nodes) - len(self.usable))

    @property
    def batch_host_lost(self) -> bool:
        """The batch host cannot be left out of a batch job: without it the job is headless."""
        return self.job.is_batch and self.job.batch_host in self.lost

    def in_job_order(self, nodes: tuple[str, ...]) -> tuple[str, ...]:
        """The same nodes as Slurm orders them."""
        return tuple(name for name in self.job.nodes if name in nodes)

    def drop_bad_nodes(self) -> None:
        """Gives the bad nodes back to Slurm, so that their death does not take the job along; then ends the attempt.

        The batch host of a batch job stays: Slurm never lets go of it. A refusal is told and not fatal: the job
        goes on with the node in it, until Slurm itself notices.
        """
        kept_for_slurm = {self.job.batch_host} if self.job.is_batch else set()
        dropped = [name for name in self.bad if name in self.job.nodes and name not in kept_for_slurm]
        if dropped:
            self._shrink_without(dropped)
        self.end_attempt()
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


def told(error: SlurmError) -> str:
    """An error of Slurm as the reason why a strategy failed."""
    return f"Slurm says: {error}"
