# SPDX-License-Identifier: Apache-2.0
"""From what was seen to the node's verdict, with time taken into account. Pure: whoever calls says what time it is.

An event counts until it is older than its class's age, or until a reboot, a reset of its GPU or another GPU in its
place has mended it (`occurrences`). A finding of a probe counts while it is found, and for a while after (`presence`).
For a GPU's XIDs, what the driver itself says is to be done (XID 154, NVML's recovery action) counts for more than the
catalogue. What cannot be told is UNKNOWN: it is never OK, and nothing is done for it. So is a node that no probe has
looked at since the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from stepguard.config import Health
from stepguard.health.gpus import Gpus
from stepguard.health.model import Action, Event, FaultClass, Finding, Report, Status
from stepguard.health.occurrences import HARDWARE, Lookup, Occurrence, Occurrences
from stepguard.health.presence import RECOVERY, Hysteresis, Presence, Presences
from stepguard.health.verdict import Item, NodeVerdict, verdict_of, weight

StatusOf = Callable[[FaultClass, Action], Status]
"""How something is of which class and action are known: the catalogue's."""

SCHEMA = 1
# An event is of this GPU alone; what another source names a GPU in may be of the whole node.
_OF_ONE_GPU = frozenset({"xid"})
# GPU recovery action changed; it is named in the row as what counts for more than the row.
_XID_154, _ROW_YIELDS = ("xid", 154), frozenset({"xid-154", "recovery"})
# The driver says both within this time, in either order.
_SAID_TOGETHER_S = 5.0

_RESET_MENDS = frozenset({Action.NONE, Action.RESTART_APPLICATION, Action.RESET_GPU})
_REBOOT_MENDS = _RESET_MENDS | {Action.REBOOT}
# Of a difference that has failed.
_CLASSES = {Action.REPLACE: FaultClass.HARDWARE_REPLACE, Action.REBOOT: FaultClass.REBOOT}


@dataclass(frozen=True)
class Rules:
    """`hardware_age_s`, `warning_age_s`: for how long an event counts, of broken hardware and of anything else."""

    lookup: Lookup
    status_of: StatusOf
    hysteresis: Hysteresis
    hardware_age_s: float
    warning_age_s: float

    @classmethod
    def of(cls, config: Health, lookup: Lookup, status_of: StatusOf) -> Rules:
        """Those of the configuration."""
        hysteresis = Hysteresis(config.clear_s, config.flaps, config.flap_window_s)
        return cls(lookup, status_of, hysteresis, config.hardware_age_s, config.warning_age_s)


class _Override(NamedTuple):
    """What the driver says is to be done to a GPU, and when; ordered by what counts."""

    said_s: float
    weight: int
    action: Action


class NodeHealth:
    """All that is known of a node's health. `boot_id` tells one boot from another (/proc/sys/kernel/random/boot_id)."""

    def __init__(self, rules: Rules, boot_id: str) -> None:
        self._rules = rules
        self._boot_id = boot_id
        self._gpus = Gpus()
        self._events = Occurrences(rules.lookup)
        self._findings = Presences(rules.hysteresis)

    # What was seen

    def add_event(self, event: Event, seen_s: float) -> None:
        """Takes in what the kernel or NVML said."""
        self._events.add(replace(event, device=self._gpus.name(event.device)), seen_s)

    def add_report(self, report: Report, now_s: float) -> None:
        """Takes in what a probe found, which stands until its next report."""
        named = [replace(one, device=self._gpus.name(one.device)) for one in report.findings]
        self._findings.add(replace(report, findings=named), now_s)

    def add_difference(self, findings: Iterable[Finding], seen_s: float) -> None:
        """Takes in what a job's time has changed: it happened once, and so counts as an event does."""
        for one in findings:
            if one.status is Status.FAIL:
                fault_class, action = _CLASSES.get(one.action, FaultClass.HARDWARE_RESET), one.action
            elif one.status is Status.WARN:
                fault_class, action = FaultClass.APPLICATION, Action.CHECK
            else:
                continue
            self.add_event(Event(0, "difference", one.what, one.device, fault_class, action, text=one.evidence), seen_s)

    def know_gpus(self, addresses: Mapping[str, str], now_s: float) -> None:
        """Takes in which GPUs the node has, UUID → PCI address. Where there is another one now, all is well again."""
        before = self._items(now_s)
        swapped = self._gpus.learn(addresses)
        self._forget(item for item in before if item.gpu in swapped)

    def name(self, device: str) -> str:
        """The one name of a device: a GPU's PCI address where that is known."""
        return self._gpus.name(device)

    def others(self, gpus: Iterable[str]) -> set[str]:
        """The names of the node's GPUs that are none of these, as far as they are known."""
        return set(self._gpus.addresses.values()) - {self._gpus.name(gpu) for gpu in gpus}

    def keep_probes(self, probes: Iterable[str]) -> None:
        """Forgets what probes have found that are not among these."""
        self._findings.keep_probes(probes)

    # What mends

    def reset(self, gpu: str, after_s: float, now_s: float) -> None:
        """The GPU has been reset, after `after_s`: what has come since may be of later, and stays."""
        name = self._gpus.name(gpu)
        before = (item for item in self._items(now_s) if item.gpu == name and item.last_s <= after_s)
        self._forget(item for item in before if item.action in _RESET_MENDS)

    def _rebooted(self, at_s: float, now_s: float) -> None:
        """The node has been booted: its clock starts anew, and ages count on from where they were at `at_s`."""
        self._forget(item for item in self._items(at_s) if item.action in _REBOOT_MENDS)
        self._events.shift(now_s - at_s)
        self._findings.shift(now_s - at_s)

    # What it comes to

    def verdict(self, now_s: float) -> NodeVerdict:
        """How the node is now."""
        return verdict_of(self._items(now_s), self._findings.has_looked)

    def verdict_for(self, gpus: Iterable[str], now_s: float) -> NodeVerdict:
        """How it is for a job that has these GPUs (UUIDs or PCI addresses): what is theirs, and the node's."""
        names = {self._gpus.name(gpu) for gpu in gpus} | {""}
        mine = [item for item in self._items(now_s) if item.gpu in names]
        return verdict_of(mine, self._findings.has_looked)

    # What is kept over a restart

    def to_state(self, now_s: float) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "schema": SCHEMA,
            "boot_id": self._boot_id,
            "at_s": now_s,
            "gpus": dict(sorted(self._gpus.addresses.items())),
            "events": self._events.to_state(),
            **self._findings.to_state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], rules: Rules, boot_id: str, now_s: float) -> NodeHealth:
        """What `to_state` gave, in this boot or an earlier one. Raises ValueError when it is nothing of the kind."""
        made = cls(rules, boot_id)
        try:
            if state["schema"] != SCHEMA:
                raise ValueError(f"schema {state['schema']}, and {SCHEMA} is known")
            if not isinstance(state["boot_id"], str):
                raise ValueError(f"a boot {state['boot_id']}")
            made._gpus = Gpus(state["gpus"])
            made._events.from_state(state["events"])
            made._findings.from_state(dict(state))
            if state["boot_id"] != boot_id:
                made._rebooted(float(state["at_s"]), now_s)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not the state of a node's health: {error!r}") from error
        return made

    def _items(self, now_s: float) -> list[Item]:
        overrides = self._overrides(now_s)
        items = [self._event_item(one, overrides) for one in self._events if not self._is_old(one, now_s)]
        items += [self._finding_item(one) for one in self._findings.there()]
        return [item for item in items if item.status is not Status.OK]

    def _is_old(self, one: Occurrence, now_s: float) -> bool:
        fault_class, action = self._events.judged(one)
        failed = self._rules.status_of(fault_class, action) is Status.FAIL
        age_s = self._rules.hardware_age_s if failed or fault_class in HARDWARE else self._rules.warning_age_s
        return now_s - one.last_s > age_s

    def _overrides(self, now_s: float) -> dict[str, _Override]:
        """What the driver said last of each GPU; CHECK is what it said in words that are not known."""
        said = [
            (self._gpus.name(one.device), _Override(one.last_s, weight(one.action), one.action))
            for one in self._events
            if (one.source, one.code) == _XID_154 and now_s - one.last_s <= self._rules.hardware_age_s
        ]
        for found in self._findings.there():
            if found.what == RECOVERY and found.status is not Status.UNKNOWN:
                override = _Override(found.last_s, weight(found.action), found.action)
                said.append((self._gpus.name(found.device), override))
        return dict(sorted((gpu, override) for gpu, override in said if override.action is not Action.CHECK))

    def _event_item(self, one: Occurrence, overrides: Mapping[str, _Override]) -> Item:
        fault_class, action = self._events.judged(one)
        name = self._gpus.name(one.device)
        override = overrides.get(name)
        yields = not _ROW_YIELDS.isdisjoint(self._events.overridden_by(one))
        if override is not None and yields and one.last_s <= override.said_s + _SAID_TOGETHER_S:
            action = override.action
        gpu = name if one.source in _OF_ONE_GPU or self._gpus.is_gpu(one.device) else ""
        status = self._rules.status_of(fault_class, action)
        times = (one.first_s, one.last_s, one.count)
        return Item(one.source, one.code, one.device, gpu, status, action, one.text, *times, fault_class)

    def _finding_item(self, one: Presence) -> Item:
        gpu = self._gpus.name(one.device) if self._gpus.is_gpu(one.device) else ""
        times = (one.since_s, one.last_s, one.count)
        return Item(one.probe, one.what, one.device, gpu, one.status, one.action, one.evidence, *times)

    def _forget(self, items: Iterable[Item]) -> None:
        gone = list(items)
        self._events.forget((item.source, item.code, item.device) for item in gone)
        self._findings.forget((item.source, str(item.code), item.device) for item in gone)
