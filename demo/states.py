# SPDX-License-Identifier: Apache-2.0
"""What Slurm says of nodes and jobs while a story runs."""

from __future__ import annotations

import time

from lab import Cluster, Process

_ASK = "sinfo -h -a -N -o '%N %T' && echo - && squeue -h -t all -S i -o '%i %j %T %N %r'"
_PAUSE_S = 0.5


class States:
    """Asks again and again, never waiting for an answer."""

    def __init__(self, lab: Cluster) -> None:
        self._lab = lab
        self._asked: Process | None = None
        self._next_s = 0.0
        self.nodes: dict[str, str] = {}
        """Each node's state, as sinfo names it; a star: does not answer."""
        self.job = ""
        """The state of the story's job, the first of all, as squeue names it."""
        self._jobs_told: dict[str, str] = {}

    def changes(self) -> list[str]:
        """What is new since the last call, in words."""
        now_s = time.monotonic()
        if self._asked is None:
            if now_s >= self._next_s:
                self._asked = self._lab.start(["sh", "-c", _ASK], host="ctl", user="root")
            return []
        if self._asked.status is None:
            return []
        answer, self._asked, self._next_s = self._asked, None, now_s + _PAUSE_S
        nodes, dash, jobs = answer.stdout.partition("-\n")
        return [*self._node_changes(nodes), *self._job_changes(jobs)] if dash and answer.status == 0 else []

    def _node_changes(self, text: str) -> list[str]:
        new = dict(line.split(maxsplit=1) for line in text.splitlines())
        changed: dict[str, list[str]] = {}
        for node, state in new.items():
            if node in self.nodes and self.nodes[node] != state:
                changed.setdefault(f"{self.nodes[node]} → {state}", []).append(node)
        self.nodes = new
        return [f"{', '.join(nodes)}: {change}" for change, nodes in changed.items()]

    def _job_changes(self, text: str) -> list[str]:
        """Tells of state, nodes, and why a job waits. The first is the story's, all others are stepguard's helpers."""
        told = {}
        for number, line in enumerate(text.splitlines()):
            job_id, name, state, *rest = line.split(" ", 4)
            nodes, reason = rest if len(rest) == 2 else ("", "")
            if number == 0:
                self.job = state
            told[job_id] = f"job {job_id}{f' ({name})' if number else ''}: {state}" + (f" on {nodes}" if nodes else "")
            told[job_id] += f" ({reason})" if state == "PENDING" and reason != "None" else ""
        changed = [words for job_id, words in told.items() if words != self._jobs_told.get(job_id)]
        self._jobs_told |= told
        return changed
