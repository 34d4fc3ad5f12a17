# SPDX-License-Identifier: Apache-2.0
"""What the agent knows of its node's health, and does about it. All of it runs in the agent's loop; what may hang is
in children. Seconds are CLOCK_BOOTTIME's."""

from __future__ import annotations

import dataclasses
import functools
import selectors
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from time import CLOCK_BOOTTIME, clock_gettime
from typing import Any

from stepguard.agent.health.cycle import Cycle
from stepguard.agent.health.event_log import EventLog
from stepguard.agent.health.gpu_count import GpuCount
from stepguard.agent.health.gpu_events import XID, GpuEvents
from stepguard.agent.health.job_gpus import Gpus, JobGpus
from stepguard.agent.health.job_health import KERNEL_LOG, Story, told
from stepguard.agent.health.kernel_log import KernelLog, Line
from stepguard.agent.health.offences import Offences, count
from stepguard.agent.health.once import KERNEL, NVML, Once
from stepguard.agent.health.reaction import Reaction
from stepguard.agent.health.state import StateFile
from stepguard.agent.health.telling import Telling
from stepguard.agent.log import Log
from stepguard.agent.storing import Storing
from stepguard.config import Config
from stepguard.health.catalogue import of_site, status_of
from stepguard.health.discretion import reason_for_all
from stepguard.health.model import Event, Report, Status
from stepguard.health.policy import NodeHealth, Rules
from stepguard.health.probes.settings import Settings
from stepguard.health.probes.table import configured
from stepguard.health.resets import Resets
from stepguard.health.snapshot import Snapshot
from stepguard.health.verdict import Item, NodeVerdict
from stepguard.records.health import HealthRecord
from stepguard.records.spool import AttemptKey, SpoolLayout

_GPU_PROBE = "nvml"
# GPU recovery action changed: NVML tells the number alone, the kernel what is to be done.
_XID_154 = 154
_TEXT_MAX = 500
# What moves or breaks under a job. DCGM watches by itself, and takes long.
LOOKS = ("nvml", "nvidia-smi", "amd", "neuron", "infiniband", "host")
# Well above what a look takes: a driver that has not answered by then hangs.
LOOK_S = 10.0


class Keeper:
    """Made once a start. Raises ConfigError where [health] names what there is not."""

    def __init__(
        self,
        config: Config,
        layout: SpoolLayout,
        boot_id: str,
        selector: selectors.BaseSelector,
        storing: Storing,
        log: Log,
    ) -> None:
        self._config = config.health
        self._layout = layout
        self._log = log
        self._catalogue = of_site(config.health.catalogue)
        self._probes = configured(config.health)
        self._file = StateFile(layout.health, storing, log)
        rules = Rules.of(config.health, lambda source, code: self._catalogue.lookup(source, code), status_of)
        take, fail = self._kernel_said, self._kernel_log_fails
        health = functools.partial(_node_health, rules, boot_id)
        events = functools.partial(EventLog, boot_id=boot_id)
        kernel_log = functools.partial(KernelLog, self._config, boot_id, selector, log, take, fail)
        # What has been counted, and how far the log was read that it was counted from.
        self._file.stand_or_fall({"health": health, "told": Once, "events": events, "kernel_log": kernel_log})
        kept = self._file.restored
        self._health = kept("health", health, {})
        self._health.keep_probes(self._probes)
        self._once = kept("told", Once, [])
        self._jobs = kept("jobs", JobGpus, {})
        self._resets = kept("resets", lambda state: Resets(state, boot_id), {})
        self._gpu_count = kept("gpu_count", lambda state: GpuCount(config, state, selector, log), {})
        self._events = kept("events", events, {})
        self._reports: dict[str, tuple[Report, float]] = {}
        self._counts = {"kernel_events": 0, "gpu_events": 0}
        self._cycle = Cycle(
            self._probes, config.health.cycle_s, self._settings, selector, self._reported, self._file.change
        )
        self._kernel_log = kept("kernel_log", kernel_log, {})
        self._gpu_events = GpuEvents(selector, log, self._gpu_told) if config.health.gpu_events else None
        self._reaction = kept("reaction", lambda state: Reaction(config, state, selector, log), {})
        self._offences = kept("offences", lambda state: Offences(config.health, state), {})
        self._telling = Telling(layout.node_state, boot_id, storing, log)

    # What the agent's loop calls

    @property
    def due_s(self) -> float:
        """When `turn` is to be called, by time.monotonic()."""
        return min(self._kernel_log.due_s, self._cycle.due_s)

    def turn(self) -> None:
        """Goes on with the kernel's log, and with looks that somebody waits for."""
        self._kernel_log.turn()
        self._cycle.turn()

    def look(self, attempts: Iterable[AttemptKey]) -> None:
        """With each tick of the agent. `attempts`: those that are open."""
        self._cycle.look()
        if self._gpu_events is not None:
            self._gpu_events.look()
        verdict = self.verdict()
        if self._offences.look(verdict, attempts, self._own_verdict) | self._reaction.look(verdict):
            self._file.change()
        self._telling.look(self._reaction.node, verdict, self._offences.offenders())
        if self._gpu_count.look(self._reaction.node):
            self._file.change()
        self._file.write(self._state)

    def wake(self) -> None:
        """Somebody wants the probes to run soon."""
        self._cycle.wake()

    def write_again(self) -> None:
        """What was written was removed from the spool."""
        self._file.change()
        self._telling.write_again()

    def stop(self) -> None:
        """Ends all that runs, and has written what is known."""
        self._cycle.stop()
        if self._gpu_events is not None:
            self._gpu_events.stop()
        self._reaction.stop()
        self._gpu_count.stop()
        self._kernel_log.stop()
        self._file.change()
        self._file.write(self._state)

    # What is asked

    def know_node(self, name: str) -> None:
        """Slurm's name of this node, by its own daemons."""
        self._reaction.know_node(name)

    def begin(self, key: AttemptKey, environment: bytes) -> None:
        """An attempt of a job is about to start, with this environment of its prolog."""
        self._jobs.begin(key, environment)

    def look_for(self, told: Callable[[list[Report]], None]) -> None:
        """Has devices looked at for a job that begins or ends; what they are like is told a moment later."""
        self._events.part()
        self._cycle.ask(LOOKS, LOOK_S, told)

    def told_of(self, key: AttemptKey, begin_s: float, before: Snapshot | None, after: Snapshot) -> HealthRecord:
        """What is kept of an attempt that began then. What has become worse concerns the node as well."""
        self._file.change()
        gpus = self.gpus_of(key)
        done = self._reaction.done_within(_now_s() - begin_s)
        story = Story(key.job_id, begin_s, before, after, self._verdict_of(gpus), done)
        return told(story, gpus, self._events, self._health)

    def verdict_for(self, key: AttemptKey | None) -> NodeVerdict:
        """What concerns an attempt: its GPUs and the node; all of the node where its GPUs are not known."""
        return self._verdict_of(None if key is None else self.gpus_of(key))

    def gpus_of(self, key: AttemptKey) -> Gpus:
        """The GPUs of an attempt."""
        return self._jobs.of(key, self._layout.attempt(key))

    def looked_for(self, key: AttemptKey) -> Gpus:
        """All names by which a look may tell of an attempt's GPUs: one that is lost tells no UUID."""
        gpus = self.gpus_of(key)
        return None if gpus is None else (*gpus, *map(self._health.name, gpus), *self._jobs.places(gpus))

    def obstacle(self, item: Item) -> str:
        """Why no job is to be refused here for a thing that has failed; "" where it is."""
        return self._reaction.obstacle(item)

    def offences(self) -> int:
        """How many jobs a GPU of this node has failed, where that is too many, else 0."""
        return count(self._offences.offenders())

    def verdict(self) -> NodeVerdict:
        """How the node is."""
        return self._health.verdict(_now_s())

    def document(self, *, is_root: bool) -> dict[str, Any]:
        """What is told of sources and reactions: to root all of it."""
        reason = attrgetter("reason") if is_root else reason_for_all
        now_s, running_s = _now_s(), self._cycle.running_s()
        probes = {}
        for name in self._probes:
            report, at_s = self._reports.get(name, (None, now_s))
            probes[name] = {
                "status": report.status if report else Status.UNKNOWN,
                "reason": reason(report) if report else "it has not run yet",
                "age_s": round(now_s - at_s, 1) if report else None,
                "running_s": running_s.get(name),
            }
        return {
            "probes": probes,
            "kernel_log": self._kernel_log.document(),
            "gpu_events": self._gpu_events.document() if self._gpu_events else None,
            "reaction": self._reaction.document(),
            "counters": self._counts,
        }

    # What was seen

    def _kernel_said(self, lines: list[Line]) -> None:
        for event, at_s in self._kernel_events.of(lines):
            self._counts["kernel_events"] += event.count
            self._saw(event, at_s, KERNEL)

    @functools.cached_property
    def _kernel_events(self) -> Any:
        from stepguard.agent.health.kernel_events import KernelEvents  # patterns, once there is something to read

        return KernelEvents(lambda: self._catalogue)

    def _kernel_log_fails(self, why: str) -> None:
        if why:
            self._health.add_report(Report(KERNEL_LOG, Status.UNKNOWN, f"it cannot be read: {why}"), _now_s())
        else:
            self._health.keep_probes(self._probes)

    def _gpu_told(self, kind: int, data: int, device: str) -> None:
        self._counts["gpu_events"] += 1
        self._cycle.wake()
        if kind == XID and data != _XID_154:
            row = self._catalogue.lookup("xid", data)
            text = f"NVML tells of an XID {data} ({row.name})"
            self._saw(Event(0, "xid", data, device, row.fault_class, row.action, text=text), _now_s(), NVML)

    def _saw(self, event: Event, at_s: float, teller: str) -> None:
        counted = self._once.counted(event, at_s, teller)
        if counted is None:
            return
        self._health.add_event(*counted)
        named = dataclasses.replace(counted[0], device=self._health.name(event.device))
        self._events.add(named, counted[1])
        self._file.change()
        if status_of(event.fault_class, event.action) is Status.FAIL:
            self._cycle.wake()
            what = f"{event.source} {event.code} on {event.device or 'this node'}: {event.text[:_TEXT_MAX]}"
            self._log.error(what, f"{event.source} {event.code}")

    def _reported(self, report: Report) -> None:
        now_s = _now_s()
        self._reports[report.probe] = (report, now_s)
        gpus = report.values.get("gpus")
        if report.probe == _GPU_PROBE and isinstance(gpus, dict):
            self._jobs.learn(gpus)
            self._gpu_count.learn(gpus)
            self._health.know_gpus(_addresses(gpus, report.values), now_s)
            for gpu, after_s, why in self._resets.look(gpus, now_s):
                self._log.info(f"{gpu} was reset ({why}): what a reset mends counts no more")
                self._health.reset(gpu, after_s, now_s)
        self._health.add_report(report, now_s)

    def _own_verdict(self, key: AttemptKey) -> NodeVerdict | None:
        gpus = self.gpus_of(key)
        return None if gpus is None else self._verdict_of(gpus)

    def _settings(self, deadline_s: float) -> Settings:
        return Settings.of(self._config, deadline_s, str(self._layout.probes), self._gpu_count.expected)

    def _verdict_of(self, gpus: tuple[str, ...] | None) -> NodeVerdict:
        return self.verdict() if gpus is None else self._health.verdict_for(gpus, _now_s())

    def _state(self) -> dict[str, Any]:
        return {
            "health": self._health.to_state(_now_s()),
            "kernel_log": self._kernel_log.cursor(),
            "told": self._once.state(_now_s()),
            "jobs": self._jobs.state(),
            "resets": self._resets.state(),
            "gpu_count": self._gpu_count.state(),
            "events": self._events.state(),
            "reaction": self._reaction.state(),
            "offences": self._offences.state(),
        }


def _node_health(rules: Rules, boot_id: str, state: Mapping[str, Any]) -> NodeHealth:
    return NodeHealth.from_state(state, rules, boot_id, _now_s()) if state else NodeHealth(rules, boot_id)


def _addresses(gpus: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, str]:
    """UUID → PCI address of the GPUs that NVML knows, and of their MIG devices."""
    known = {uuid: gpu["pci"] for uuid, gpu in gpus.items() if gpu.get("pci")}
    known |= {mig: gpu["pci"] for gpu in gpus.values() if gpu.get("pci") for mig in gpu["mig"]["devices"]}
    return known | {one["uuid"]: one["pci"] for one in values.get("unread", ()) if one.get("uuid") and one.get("pci")}


def _now_s() -> float:
    return clock_gettime(CLOCK_BOOTTIME)
