# SPDX-License-Identifier: Apache-2.0
"""Who has which ranks, remembered from one attempt to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepguard.config import Resume
from stepguard.resume import places
from stepguard.resume.attempt import Attempt
from stepguard.resume.helper_job import HelperJob
from stepguard.resume.layout import Layout, learnt
from stepguard.resume.parts import Relaunch
from stepguard.resume.relaunch import Memory, relaunch, uses_pmi
from stepguard.resume.strategies.outcome import Placement
from stepguard.slurm.records import ClusterConfig, Job
from stepguard.slurm.srun_arguments import SrunCommand


@dataclass
class Ranks:
    """What the tasks told of their places, and the sruns that give them the same again."""

    config: Resume
    command: SrunCommand
    environment: Mapping[str, str]
    memory: Memory | None = None

    @property
    def layout(self) -> Layout | None:
        """Which ranks were where in the last attempt; None where that is not known."""
        return self.memory.layout if self.memory else None

    def remember(self, attempt: Attempt) -> None:
        """Takes what the nodes of an attempt said, unless it was us who gave its tasks their places."""
        if not attempt.started or places.VARIABLE in attempt.sruns.first.environment:
            return
        tasks = attempt.watch.pulse.tasks(attempt.nodes)
        ranks = {node: _numbers(task.get("SLURM_GTIDS", "")) for node, task in tasks.items()}
        num_tasks = sum(part.step.num_tasks for part in attempt.parts if part.step)
        layout = learnt(attempt.nodes, num_tasks, ranks)
        if layout is None and self.layout is not None and self.layout.nodes == attempt.nodes:
            layout = self.layout
        told = next(iter(tasks.values()), self.memory.told if self.memory else {})
        self.memory = Memory(layout, {name: value for name, value in told.items() if name != "SLURM_GTIDS"})

    def sruns(
        self,
        job: Job,
        cluster: ClusterConfig,
        placement: Placement,
        helpers: Sequence[HelperJob],
        have_plugin: bool,
        new_num_nodes: int | None,
    ) -> Relaunch:
        """The next attempt; `have_plugin` says that it works on all nodes of the placement.

        All keep their ranks where that helps and can be done; always where helpers lend nodes.
        """
        nodes = placement.nodes
        layout = self.layout if self.layout and len(self.layout.slots) == len(nodes) else None
        keeps = self.config.keep_ranks and not uses_pmi(self.command, cluster, self.config)
        told = keeps and have_plugin and layout is not None and places.fits(layout)
        if not helpers and not told:
            layout = None
        memory = self.memory._replace(layout=layout) if self.memory else None
        if memory and layout:
            self.memory = memory._replace(layout=layout.moved_to(nodes))
        return relaunch(self.command, self.environment, job, nodes, helpers, memory, new_num_nodes)


def _numbers(text: str) -> tuple[int, ...]:
    """ "0,1,4" → (0, 1, 4); () where it is none, for a program may have set the variable itself."""
    words = text.split(",")
    return tuple(int(word) for word in words) if all(word.isdigit() for word in words) else ()
