# SPDX-License-Identifier: Apache-2.0
"""What the supervisor tells the watches when it starts them."""

from __future__ import annotations

import json
from typing import NamedTuple


class Orders(NamedTuple):
    """What the supervisor tells its watches at the start; travels as JSON on their command line.

    `supervisor` is the slurmd of the supervisor's host (None on a login node, where there is none), `controllers`
    are the slurmctlds, each as (address, port).
    `requeue`: a batch job that may be requeued when its batch host is lost. `journal` is where to say so.
    `fault_file` and `agent_socket` are where a node's faults are told ("": no agent is asked). `helper_id` is the
    helper job that is watched, "" for the job itself; it ends when nobody needs it any more.
    """

    job_id: str
    helper_id: str
    restart_count: int
    requeue: bool
    supervisor_node: str
    supervisor: tuple[str, int] | None
    controllers: tuple[tuple[str, int], ...]
    silence_s: float
    probe_s: float
    batch_host_s: float
    fault_file: str
    journal: str
    step_key: str
    agent_socket: str = ""

    @property
    def watched_job_id(self) -> str:
        """The job in which this watch runs."""
        return self.helper_id or self.job_id

    def as_text(self) -> str:
        """For the command line of the watch."""
        return json.dumps(self._asdict())

    @staticmethod
    def from_text(text: str) -> Orders:
        """The orders of `as_text`. Raises ValueError, KeyError or TypeError when they are not."""
        given = json.loads(text)
        given["supervisor"] = given["supervisor"] and tuple(given["supervisor"])
        given["controllers"] = tuple(tuple(place) for place in given["controllers"])
        return Orders(**given)
