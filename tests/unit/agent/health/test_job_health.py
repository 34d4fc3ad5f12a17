# SPDX-License-Identifier: Apache-2.0
"""What became of a job's devices: a real agent looks at the lab's GPUs before and after."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.gpus import Gpus, uuid
from lab.kernel import Kernel
from stepguard.records import spool, wire
from stepguard.records.health import HealthRecord
from stepguard.records.manifest import health_from
from unit.agent.agent_process import AgentProcess, epilog, fields, prolog, wait_until

Make = Callable[..., AgentProcess]


def looks(agent: AgentProcess, key: str, kind: str) -> list[Path]:
    return [path for _, name, path in spool.messages(agent.layout.jobs / key) if name == kind]


def told(agent: AgentProcess, key: str) -> HealthRecord:
    """What is kept of an attempt that is over."""
    [path] = wait_until(lambda: looks(agent, key, "job_health"), 30)
    wait_until(lambda: agent.is_complete(key), 10)
    return health_from(wire.decode(path.read_bytes())["record"].decode())


def first_look(agent: AgentProcess) -> None:
    """Waits until the agent has looked for all jobs that have begun."""
    time.sleep(1.0)
    wait_until(lambda: agent.health()["probes"]["nvml"]["age_s"] is not None, 30)
    wait_until(lambda: agent.health()["probes"]["nvml"]["running_s"] is None, 30)


@pytest.fixture
def agent(make_agent: Make, gpus: Gpus) -> AgentProcess:
    made = make_agent(env=gpus.environment).start()
    wait_until(lambda: made.health()["probes"]["nvml"]["age_s"] is not None, 30)
    return made


def test_nothing_happened(agent: AgentProcess, gpus: Gpus) -> None:
    agent.tell(prolog(7, SLURM_JOB_GPUS="2,3"))
    first_look(agent)
    gpus["gpu3.power.energy_mj"] = 4_000_250_000
    agent.tell(epilog(7))
    found = told(agent, "7.0")
    assert (found.status, found.action, found.gpus) == ("ok", "none", [uuid(2), uuid(3)])
    assert (found.changes, found.findings, found.events, found.not_known, found.why) == ([], [], [], {}, "")
    assert found.energy_j == 250.0
    assert found.seconds is not None and 0.5 < found.seconds < 60
    assert looks(agent, "7.0", "looked") == [], "a short job needs no file for its first look"


def test_what_moved_and_what_failed_under_the_job_and_on_no_other_gpu(agent: AgentProcess, gpus: Gpus) -> None:
    agent.tell(prolog(7, SLURM_JOB_GPUS="0"), prolog(8, SLURM_JOB_GPUS="1"))
    first_look(agent)
    gpus.update({"gpu0.ecc.volatile.uncorrected": 2, "gpu0.rows.failure": 1, "gpu1.pcie.replays": 5})
    Kernel(agent.kernel_log).xid(48, gpu=0)
    wait_until(lambda: agent.health()["counters"]["kernel_events"] == 1)
    agent.tell(epilog(7), epilog(8))
    found = told(agent, "7.0")
    assert (found.status, found.action) == ("fail", "replace")
    moved = {(one.what, one.by, one.status) for one in found.changes}
    assert ("ecc.volatile_uncorrected", 2, "fail") in moved
    assert {one.what: one.is_new for one in found.findings}["row-remap-failure"]
    [event] = found.events
    assert (event.source, event.code, event.device, event.count, event.status) == ("xid", "48", "0000:0f:00", 1, "fail")
    assert event.last_s is not None and abs(event.last_s - time.time()) < 60
    other = told(agent, "8.0")
    assert (other.status, other.events, [one.what for one in other.changes]) == ("ok", [], ["pcie.replays"])
    assert not [one for one in agent.health()["items"] if one["origin"] == "difference"], "the probes tell of it"


def test_a_kernels_log_that_cannot_be_read(agent: AgentProcess) -> None:
    """No look misses it, but what the kernel said of the job's time is not known."""
    agent.tell(prolog(7, SLURM_JOB_GPUS="0"))
    first_look(agent)
    agent.stop()
    agent.kernel_log.unlink()
    agent.kernel_log.mkdir()
    agent.start()
    agent.tell(epilog(7))
    found = told(agent, "7.0")
    assert found.status == "unknown"
    assert "kernel-log: it cannot be read: what is there is no log as /dev/kmsg gives it" in found.why


def test_what_no_later_look_will_tell_counts_for_the_node(agent: AgentProcess, gpus: Gpus) -> None:
    agent.tell(prolog(7, SLURM_JOB_GPUS="0"))
    first_look(agent)
    gpus["gpu0.rows.corrected"] = 1
    agent.tell(epilog(7))
    found = told(agent, "7.0")
    assert [(one.what, one.by, one.status) for one in found.changes] == [("rows.corrected", 1, "warn")]
    [item] = [one for one in agent.health()["items"] if one["origin"] == "difference"]
    assert (item["code"], item["gpu"], item["status"]) == ("moved: rows.corrected", "0000:0f:00", "warn")


def test_the_first_look_outlives_the_agent(agent: AgentProcess, gpus: Gpus) -> None:
    agent.tell(prolog(7, SLURM_JOB_GPUS="0"))
    wait_until(lambda: looks(agent, "7.0", "looked"), 30)
    agent.stop(signal.SIGKILL)
    gpus["gpu0.pcie.replays"] = 9
    agent.start()
    agent.tell(epilog(7))
    found = told(agent, "7.0")
    assert [(one.what, one.by) for one in found.changes] == [("pcie.replays", 9)]
    assert len(looks(agent, "7.0", "looked")) == 1


def test_an_agent_that_comes_later_looks_from_then_on(make_agent: Make, gpus: Gpus) -> None:
    agent = make_agent(env=gpus.environment).start()
    agent.tell(prolog(7, SLURM_JOB_GPUS="0"))
    agent.stop(signal.SIGKILL)
    agent.start()
    first_look(agent)
    agent.stop(signal.SIGKILL)  # before the first look is on disk
    agent.start()
    agent.tell(epilog(7))
    agent.stop(signal.SIGKILL)  # before the second
    agent.start()
    found = told(agent, "7.0")
    assert found.gpus == [uuid(0)]
    assert found.why == "" or "beginning" in found.why


@pytest.mark.parametrize("end_first", [False, True])
def test_a_driver_that_hangs_holds_nobody_up(make_agent: Make, gpus: Gpus, end_first: bool) -> None:
    gpus["driver.hangs"] = "*"
    agent = make_agent(env=gpus.environment).start()
    began_s = time.monotonic()
    agent.tell(prolog(7, SLURM_JOB_GPUS="0"))
    if end_first:
        del gpus["driver.hangs"]
    agent.tell(epilog(7))
    assert time.monotonic() - began_s < 2
    found = told(agent, "7.0")
    if found.status != "ok":  # one that has answered meanwhile
        assert (found.status, found.action) == ("unknown", "none")
        assert "nvml: no answer within 10 s" in found.why


def test_a_lost_gpu_is_told_as_one(agent: AgentProcess, gpus: Gpus) -> None:
    agent.tell(prolog(7, SLURM_JOB_GPUS="5,6"))
    first_look(agent)
    gpus.lose(6)
    agent.tell(epilog(7))
    found = told(agent, "7.0")
    [change] = found.changes
    assert (change.kind, change.device, change.status) == ("unread", uuid(6), "fail")
    assert [one.what for one in found.findings] == ["gpu-lost"]
    assert found.gpus == [uuid(5), uuid(6)]


def test_a_gpu_that_was_lost_before_the_job_is_told_to_it_and_to_no_other(agent: AgentProcess, gpus: Gpus) -> None:
    gpus.lose(6)
    agent.tell(prolog(7, SLURM_JOB_GPUS="5,6"))
    agent.tell(prolog(8, SLURM_JOB_GPUS="4"))
    first_look(agent)
    agent.tell(epilog(7))
    agent.tell(epilog(8))
    found = told(agent, "7.0")
    assert (found.status, found.gpus, found.changes) == ("fail", [uuid(5), uuid(6)], [])
    assert [(one.what, one.device, one.is_new) for one in found.findings] == [("gpu-lost", "GPU 6", False)]
    other = told(agent, "8.0")
    assert (other.status, other.gpus, other.findings) == ("ok", [uuid(4)], [])


def test_a_user_may_not_tell_of_devices(agent: AgentProcess) -> None:
    agent.tell(prolog(7))
    for kind in ("looked", "job_health"):
        assert agent.ask(fields(kind, 7, record=b"{}")) == f"refused unknown kind {kind}\n".encode()


def test_a_first_look_that_came_late_is_told(agent: AgentProcess, gpus: Gpus) -> None:
    agent.tell(prolog(7, SLURM_JOB_GPUS="0"))
    agent.stop(signal.SIGKILL)
    time.sleep(4)
    agent.start()
    wait_until(lambda: looks(agent, "7.0", "looked"), 30)
    agent.tell(epilog(7))
    found = told(agent, "7.0")
    assert re.fullmatch(r"the first look was [0-9]+ s after its beginning", found.why)


def test_what_has_come_too_often_is_told_as_what_it_is(agent: AgentProcess) -> None:
    agent.tell(prolog(7, SLURM_JOB_GPUS="0"))
    for pid in range(70, 75):
        Kernel(agent.kernel_log).xid(13, text=f"pid={pid}, name=python, Graphics Exception")
        time.sleep(2.2)  # lines of one crash are one time
    wait_until(lambda: agent.health()["counters"]["kernel_events"] == 5)
    agent.tell(epilog(7))
    found = told(agent, "7.0")
    assert (found.status, found.action) == ("fail", "reset-gpu")
    assert {(one.code, one.fault_class, one.action) for one in found.events} == {("13", "hardware-reset", "reset-gpu")}
