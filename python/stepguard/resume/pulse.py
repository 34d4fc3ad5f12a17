# SPDX-License-Identifier: Apache-2.0
"""Which nodes are alive, from two witnesses: the answers of their watches, and a TCP connection to their slurmd. And
what they tell of themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stepguard.config import Resume
from stepguard.resume.reach import Probe
from stepguard.resume.told import HARDWARE_ACTIONS, Told, told_in

# A node whose kernel answers although its watch is silent (an overloaded node, a killed watch) is asked again so often.
_AGAIN_S = 1.0
# A watch takes this long to start on a busy node before its silence means anything.
_START_S = 3.0


@dataclass
class _Node:
    place: tuple[str, int]
    heard_s: float
    seq: int = -1
    processes: int | None = None
    processes_seq: int = -1
    probe: Probe | None = None
    lost: bool = False
    flapped: bool = False
    told: list[Told] = field(default_factory=list)
    has_agent: bool = False
    offences: int = 0
    has_spoken: bool = False
    has_plugin: bool = False
    task: dict[str, str] = field(default_factory=dict)


class Pulse:
    """What is known of each node. All times are of the monotonic clock, in seconds; `began_s` is when the guarded step
    began."""

    def __init__(
        self, config: Resume, places: Mapping[str, tuple[str, int]], now_s: float, began_s: float = -math.inf
    ) -> None:
        self._config = config
        self.began_s = began_s
        self._nodes = {name: _Node(place, now_s + _START_S) for name, place in places.items()}

    def heard(self, report: Mapping[str, object], now_s: float) -> None:
        """Takes one answer of a watch; an answer that is none is left aside."""
        node = self._nodes.get(str(report.get("node")))
        if node is None:
            return
        node.heard_s = now_s
        seq, processes = report.get("seq"), report.get("processes")
        if isinstance(seq, int):
            node.seq = seq
            if isinstance(processes, int):
                node.processes, node.processes_seq = processes, seq
        node.told = told_in(report, now_s)
        offences = report.get("offences")
        node.offences = offences if isinstance(offences, int) else 0
        node.has_agent = report.get("agent") is True
        node.has_spoken = True
        node.has_plugin = report.get("plugin") is True
        task = report.get("task")
        if isinstance(task, dict) and task:
            node.task = {str(name): str(value) for name, value in task.items()}
        if node.lost:
            node.lost, node.flapped = False, True
        self._stop_probe(node)

    def excuse(self, pause_s: float) -> None:
        """We ourselves were stopped for so long (Ctrl-Z, a suspended host): nobody was silent in that time."""
        for node in self._nodes.values():
            node.heard_s += pause_s
            self._stop_probe(node)

    def start_over(self, now_s: float) -> None:
        """We ourselves were cut off: all silence until now is ours, and is counted anew."""
        for node in self._nodes.values():
            node.heard_s = max(node.heard_s, now_s)
            node.lost = False
            self._stop_probe(node)

    def suspects(self) -> bool:
        """Whether the kernel of any node is being asked, because its watch is silent."""
        return any(node.probe is not None for node in self._nodes.values())

    def look(self, now_s: float) -> None:
        """Moves the probes on and decides which nodes are lost. Never blocks."""
        for node in self._nodes.values():
            silence_s = now_s - node.heard_s
            if silence_s < self._config.silence_s - self._config.probe_s:
                continue
            if node.probe is None:
                node.probe = Probe(*node.place)
            answers = node.probe.result()
            probed_s = now_s - node.probe.started_s
            if answers:
                if node.lost:
                    node.lost, node.flapped = False, True
                if probed_s >= _AGAIN_S:
                    self._stop_probe(node)
            elif silence_s >= self._config.silence_s and probed_s >= self._config.probe_s:
                node.lost = True
                self._stop_probe(node)

    def _stop_probe(self, node: _Node) -> None:
        if node.probe is not None:
            node.probe.close()
            node.probe = None

    def lost(self) -> set[str]:
        """Nodes that neither their watch nor their kernel speaks for."""
        return {name for name, node in self._nodes.items() if node.lost}

    def silence_s(self, name: str, now_s: float) -> float:
        """How long a node's watch has said nothing."""
        return now_s - self._nodes[name].heard_s

    def overdue(self, now_s: float) -> bool:
        """Whether any node should have said something by now, so that it is worth looking often."""
        return any(
            now_s - node.heard_s > 1.5 * self._config.heartbeat_s for node in self._nodes.values() if not node.lost
        )

    def flapped(self) -> tuple[str, ...]:
        """Nodes that were lost and came back."""
        return tuple(name for name, node in self._nodes.items() if node.flapped)

    def told(self) -> dict[str, list[Told]]:
        """What nodes told of themselves, by node."""
        return {name: node.told for name, node in self._nodes.items() if node.told}

    def faults(self) -> dict[str, list[Told]]:
        """The broken hardware that nodes told of, by node, the gravest first, which ends a step that runs there.

        What happened before the guarded step began, and was not seen since, is no reason to end it: it started on that
        node all the same, and the agent is not always told of a repair.
        """
        found = {
            name: [one for one in told if one.seen_since(self.began_s)] for name, told in self.standing_faults().items()
        }
        return {name: faults for name, faults in found.items() if faults}

    def standing_faults(self) -> dict[str, list[Told]]:
        """The broken hardware that nodes tell of, whenever it was seen, the gravest first: nothing new is to be started
        there, and a step that fails there may have failed for it."""
        found = {name: [one for one in told if one.is_hardware] for name, told in self.told().items()}
        return {name: sorted(faults, key=_gravity) for name, faults in found.items() if faults}

    def offences(self, name: str) -> int:
        """How many jobs a GPU of the node has failed, where those are too many; 0 else."""
        return self._nodes[name].offences if name in self._nodes else 0

    def with_agent(self, names: Iterable[str]) -> list[str]:
        """Those of these nodes whose agent tells of their health."""
        return [name for name in names if name in self._nodes and self._nodes[name].has_agent]

    def tasks(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """What a task of the step was told of itself, in Slurm's variables, by node; of nodes that found one."""
        known = ((name, self._nodes[name]) for name in names if name in self._nodes)
        return {name: node.task for name, node in known if node.task}

    def with_plugin(self) -> set[str]:
        """The nodes in whose slurmstepd the plugin is known to work."""
        return {name for name, node in self._nodes.items() if node.has_plugin}

    def unheard(self, names: Iterable[str]) -> list[str]:
        """Those of these nodes whose watch has not said anything yet."""
        return [name for name in names if name in self._nodes and not self._nodes[name].has_spoken]

    def unanswered(self, seq: int, names: Iterable[str]) -> list[str]:
        """Those of these nodes that have not answered ping `seq` or a later one, and are not lost either."""
        known = [(name, self._nodes[name]) for name in names if name in self._nodes]
        return [name for name, node in known if node.seq < seq and not node.lost]

    def place(self, name: str) -> tuple[str, int]:
        """Address and port of a node's slurmd."""
        return self._nodes[name].place

    def emptied(self, seq: int, names: Iterable[str]) -> bool:
        """Whether each of these nodes has no process of the step left, by an answer to ping `seq` or later."""
        known = [self._nodes[name] for name in names if name in self._nodes]
        return all((node.processes_seq >= seq and node.processes == 0) or node.lost for node in known)


def _gravity(told: Told) -> int:
    return HARDWARE_ACTIONS.index(told.action)
