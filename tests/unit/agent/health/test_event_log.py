# SPDX-License-Identifier: Apache-2.0
"""Which events a job's record gets."""

from __future__ import annotations

import json

from stepguard.agent.health.event_log import EventLog
from stepguard.health.model import Action, Event, FaultClass

MINE, OTHER = "0000:0f:00", "0000:1f:00"


def xid(code: int = 79, device: str = MINE, text: str = "fallen off the bus") -> Event:
    return Event(0, "xid", code, device, FaultClass.HARDWARE_REPLACE, Action.REPLACE, text=text)


def oom(cgroup: str) -> Event:
    text = "Killed process 7 (train)"
    return Event(0, "oom", "memcg", cgroup, FaultClass.APPLICATION, Action.RESTART_APPLICATION, text=text)


def told(log: EventLog, since_s: float = 0.0, job_id: int = 7) -> list[tuple[str, object, str, int, str]]:
    found = log.of(job_id, {MINE}, {OTHER}, since_s)
    return [(one.source, one.code, one.device, one.count, one.text) for one in found]


def test_identical_ones_are_counted_within_a_minute() -> None:
    log = EventLog({}, "boot")
    for at_s in (10.0, 11.0, 69.0, 71.0):
        log.add(xid(), at_s)
    log.add(xid(48, text=""), 12.0)
    assert told(log) == [
        ("xid", 79, MINE, 3, "fallen off the bus"),
        ("xid", 79, MINE, 1, "fallen off the bus"),
        ("xid", 48, MINE, 1, ""),
    ]


def test_what_came_before_a_job_is_not_counted_with_what_comes_under_it() -> None:
    log = EventLog({}, "boot")
    log.add(xid(), 10.0)
    log.part()
    log.add(xid(), 11.0)
    assert [count for *_, count, _ in told(log, 10.5)] == [1]
    assert [count for *_, count, _ in told(log, 0.0)] == [1, 1]


def test_other_gpus_and_other_jobs_memory_are_left_out() -> None:
    log = EventLog({}, "boot")
    log.add(xid(device=OTHER), 1.0)
    log.add(xid(device=""), 2.0)
    log.add(oom("/slurm/uid_1/job_7/step_0/task_0"), 3.0)
    log.add(oom("/slurm/uid_1/job_71/step_0/task_0"), 4.0)
    log.add(oom("/system.slice/foo.service"), 5.0)
    log.add(oom("/user.slice/user-1000.slice/user@1000.service/slurm/uid_1/job_7"), 6.0)  # a user's own
    assert told(log) == [
        ("xid", 79, "", 1, "fallen off the bus"),
        ("oom", "memcg", "/slurm/uid_1/job_7/step_0/task_0", 1, "Killed process 7 (train)"),
        # Whose program it was is nobody else's matter.
        ("oom", "memcg", "", 1, ""),
        ("oom", "memcg", "", 1, ""),
    ]


def test_programs_are_named_to_who_had_the_gpu_alone() -> None:
    log = EventLog({}, "boot")
    log.add(xid(text="79, pid=4711, name=secret, GPU has fallen off the bus"), 1.0)
    hung = "INFO: task secret:99 blocked for more than 120 seconds."
    log.add(Event(0, "lockup", "hung-task", "secret", FaultClass.APPLICATION, Action.CHECK, text=hung), 2.0)
    assert [one[4] for one in told(log)] == ["79, pid=4711, name=secret, GPU has fallen off the bus", ""]
    of_unknown_gpus = [(one.device, one.text) for one in log.of(7, set(), set(), 0.0)]
    assert of_unknown_gpus == [(MINE, "79, GPU has fallen off the bus"), ("", "")]


def test_it_is_kept_over_a_restart_and_not_over_a_boot() -> None:
    log = EventLog({}, "boot")
    log.add(xid(), 10.0)
    state = json.loads(json.dumps(log.state()))
    again = EventLog(state, "boot")
    again.add(xid(), 11.0)
    assert told(again) == [told(log)[0], told(log)[0]], "what comes now is not counted with what was kept"
    assert told(EventLog(state, "another boot")) == []


def test_a_detail_of_an_event_is_no_event() -> None:
    """As the kernel's words on an XID that NVML has told of before."""
    log = EventLog({}, "boot")
    log.add(xid(text="NVML tells of an XID 79"), 10.0)
    detail = Event(0, "xid", 79, MINE, FaultClass.HARDWARE_REPLACE, Action.REPLACE, count=0, text="the kernel's words")
    log.add(detail, 10.1)
    log.add(Event(0, "xid", 48, MINE, FaultClass.HARDWARE_RESET, Action.RESET_GPU, count=0), 10.2)
    assert told(log) == [("xid", 79, MINE, 1, "the kernel's words")]


def test_a_flood_drops_the_oldest() -> None:
    log = EventLog({}, "boot")
    for number in range(2000):
        log.add(xid(number), float(number))
    codes = [code for _, code, *_ in told(log)]
    assert codes == list(range(2000 - 256, 2000))
