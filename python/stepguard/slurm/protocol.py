# SPDX-License-Identifier: Apache-2.0
"""What stepguard asks of Slurm. Two forms keep this promise: the commands, and pyslurm.

Everything is done with the rights of the calling user. Job ids are text as Slurm prints them ("71"; "70_3" is also
taken). Every method raises SlurmUnreachable when slurmctld gives no answer within the configured time, and
SlurmRefused, with Slurm's own words, when it answers no (which includes an id that it does not know).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from stepguard.slurm.records import ClusterConfig, Job, Node, Share, Step


class SlurmClient(Protocol):
    """One way to talk with Slurm."""

    def job(self, job_id: str) -> Job:
        """The job with this id. A purged id (MinJobAge after the end) is SlurmRefused."""

    def asked_job(self, job_id: str) -> AbstractContextManager[Callable[[], Job]]:
        """`job`, asked at once: the call that the context gives waits for the answer, and raises as `job` does."""

    def nodes(self, names: Iterable[str]) -> list[Node]:
        """Those nodes, in the order of `names`, each once. No names: no question, an empty list.

        A name that Slurm does not know is SlurmRefused.
        """

    def all_nodes(self) -> list[Node]:
        """All nodes of the cluster, those of hidden partitions among them, in Slurm's order."""

    def shares(self, job_id: str) -> list[Share]:
        """What the job holds on each of its nodes, in Slurm's order; empty while it is pending."""

    def steps(self, job_id: str) -> list[Step]:
        """The job's steps that have not ended, in the order of slurmctld; batch and extern steps among them.

        Empty when the job has none, or has ended.
        """

    def step_accounting(self, job_id: str, step_id: str) -> str | None:
        """Accounting's word on a step: RUNNING, COMPLETED, FAILED, CANCELLED, OUT_OF_MEMORY, TIMEOUT, NODE_FAIL.

        The first word only ("CANCELLED by 1000" is CANCELLED). None where the cluster keeps no accounting, where
        it does not answer, or where it has no record of the step yet (slurmctld sends it a moment after the end).
        Of a step that several runs of a requeued job had, the last run's. Never raises.
        """

    def config(self) -> ClusterConfig:
        """The cluster's configuration, as slurmctld has it."""

    def controller_answers(self) -> bool:
        """Whether any slurmctld answers a ping now. Never raises."""

    def keep_nodes(self, job_id: str, nodes: Iterable[str]) -> None:
        """Shrinks the running job to `nodes`, which must be of it and, of a batch job, hold its batch host.

        Returns once slurmctld has done it. Steps on the nodes given up are ended, unless they run with --no-kill.
        """

    def merge_into(self, helper_id: str) -> None:
        """Hands all nodes of a job that has --dependency=expand:TARGET over to TARGET; the helper ends by that.

        Needs SchedulerParameters=permit_job_expansion, no step in the helper, and no GRES.
        """

    def cancel_step(self, job_id: str, step_id: str, signal: str | None = None) -> None:
        """Ends one step, or sends it `signal` ("KILL", "TERM"). A step that has ended already is no error."""

    def cancel_job(self, job_id: str) -> None:
        """Ends a job, whatever it does. A job that has ended already is no error."""

    def jobs_named(self, name: str, user: str) -> list[str]:
        """Ids of the user's jobs of exactly this name that have not ended, in ascending order."""

    def requeue(self, job_id: str) -> None:
        """Stops a batch job and puts it back in the queue, under its own id. One that has ended stays ended.

        From 25.11 on a job submitted with --requeue=expedite goes to the head of the queue; nothing else asks for that.
        """

    def update_nodes(
        self, names: Iterable[str], state: str = "", reason: str | None = None, comment: str | None = None
    ) -> None:
        """Changes what is said of nodes, for which the caller must be an administrator of Slurm's. No names: nothing.

        `state` is FAIL, DRAIN or RESUME; "" leaves it. RESUME also takes the reason away, and is refused for a node
        that is in service; one that was drained is NOT_RESPONDING for a second then, until it has answered. `reason`
        and `comment`: "" takes it away, None leaves it; a reason needs a state that keeps it. Where one name is unknown
        the others are changed all the same, and it is SlurmRefused (22.05 to 26.05).
        """

    def exclude_nodes(self, job_id: str, nodes: Iterable[str]) -> None:
        """Keeps a pending job off `nodes`, in place of what its --exclude said before."""
