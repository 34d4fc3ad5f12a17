# SPDX-License-Identifier: Apache-2.0
"""Makes the watches of a guarded step: one for its job and one for each helper job.

The job's lives on from one attempt to the next as long as it covers the job's nodes, so that losses in the middle of a
relaunch are seen at once, and a hundred nodes do not start two steps at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepguard.config import Resume
from stepguard.resume.helper_job import HelperJob
from stepguard.resume.journal import Journal
from stepguard.resume.lookout import Lookout
from stepguard.resume.messages import Messages
from stepguard.resume.orders import Orders
from stepguard.resume.watch_step import WatchStep
from stepguard.slurm.protocol import SlurmClient
from stepguard.slurm.records import ClusterConfig, Job

# A job that is requeued while a node of it is dead loses its GRES (22.05.8; 24.11.5 is right). The batch host cannot be
# dropped first, so there Slurm's own requeue is waited for, which keeps them, once it has noticed the node.
_REQUEUE_KEEPS_GRES = (24, 11)


@dataclass
class Watching:
    """`own_node` is the node that the supervisor runs on, "" on a login host; `agent_socket` is the agent's on each
    node, `began_s` when the guarded step began, by the monotonic clock."""

    srun: str
    own_node: str
    slurm: SlurmClient
    config: Resume
    agent_socket: str
    journal: Journal
    messages: Messages
    began_s: float
    _orders: Orders | None = None
    _own: WatchStep | None = None

    def lookout(self, job: Job, cluster: ClusterConfig, helpers: Sequence[HelperJob]) -> Lookout:
        """Over the job's nodes and those of its helpers, whose watches run already. Raises SlurmError."""
        lent = [name for helper in helpers for name in helper.nodes]
        found = {node.name: (node.address, node.port) for node in self.slurm.nodes((*job.nodes, *lent))}
        is_inside = self.own_node in job.nodes
        loses_gres = job.has_gres and cluster.release < _REQUEUE_KEEPS_GRES
        self._orders = Orders(
            job_id=job.id,
            helper_id="",
            restart_count=job.restart_count,
            requeue=job.is_batch and job.requeue_allowed and is_inside and not loses_gres,
            supervisor_node=self.own_node,
            supervisor=found[self.own_node] if is_inside else None,
            controllers=cluster.slurmctld_places,
            silence_s=self.config.silence_s,
            probe_s=self.config.probe_s,
            batch_host_s=self.config.batch_host_s,
            fault_file=self.config.fault_file,
            journal=str(self.journal.path),
            step_key=self.journal.key,
            agent_socket=self.agent_socket,
        )
        own = self._own_watch(self._orders, job.nodes)
        watches = [helper.watch for helper in helpers if helper.watch is not None]
        return Lookout(own, watches, found, cluster.slurmctld_places, self.config, self.began_s)

    def _own_watch(self, orders: Orders, nodes: tuple[str, ...]) -> WatchStep:
        """The watch that runs already, if it was told the same and covers these nodes, else a new one."""
        if self._own is not None and self._own.covers(orders, nodes):
            self._own.nodes = nodes
            return self._own
        self.stop()
        self._own = WatchStep(self.srun, orders, nodes, self.messages)
        return self._own

    def stop(self) -> None:
        """Ends the job's own watch, if there is one."""
        if self._own is not None:
            self._own.stop()

    def of_nodes(self, helper_id: str, nodes: tuple[str, ...]) -> WatchStep:
        """The watch of new nodes, of a helper or ("") of the job. A lookout was made before."""
        assert self._orders is not None
        return WatchStep(self.srun, self._orders._replace(helper_id=helper_id), nodes, self.messages)
