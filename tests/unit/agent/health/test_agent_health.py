# SPDX-License-Identifier: Apache-2.0
"""A real agent and its node's health: kernel's log, NVML and probes in, verdicts and gate out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from lab.gpus import DRIVER_NOT_LOADED, VERSION_MISMATCH, XID, Gpus
from lab.kernel import Kernel
from stepguard.records.node_state import from_json
from unit.agent.agent_process import BOOT_ID, USER, AgentProcess, epilog, fields, prolog, wait_until

Make = Callable[..., AgentProcess]
NVML = 'probes = ["nvml"]'


def kernel_of(agent: AgentProcess) -> Kernel:
    """What this agent takes for the kernel."""
    return Kernel(agent.kernel_log)


def item(agent: AgentProcess, code: object) -> dict[str, Any]:
    """The one with this code; nothing where there is none."""
    found = [one for one in agent.health()["items"] if one["code"] == code]
    assert len(found) < 2, found
    return found[0] if found else {}


def probed(agent: AgentProcess) -> bool:
    return agent.health()["probes"]["nvml"]["age_s"] is not None


def findings(agent: AgentProcess, job_id: int, uid: int = 0) -> list[dict[str, Any]]:
    answer = agent.ask(fields("verdict", job_id)) if uid == 0 else agent.ask_as(uid, fields("verdict", job_id))
    found: list[dict[str, Any]] = json.loads(answer)["findings"]
    return found


@pytest.fixture
def watched(make_agent: Make, gpus: Gpus) -> AgentProcess:
    """With eight GPUs, of which the first cycle has told."""
    agent = make_agent(env=gpus.environment).start()
    wait_until(lambda: probed(agent), 30)
    return agent


def test_a_node_that_is_well(watched: AgentProcess) -> None:
    told = watched.health()
    assert (told["status"], told["action"], told["items"]) == ("ok", "none", [])
    assert told["probes"]["nvml"]["reason"] == "8 GPUs, no finding"
    assert watched.status()["health"] == {"status": "ok", "action": "none", "items": []}


def test_before_a_probe_has_looked_nobody_knows(make_agent: Make, gpus: Gpus) -> None:
    gpus["driver.hangs"] = "*"
    agent = make_agent(env=gpus.environment).start()
    assert (agent.health()["status"], agent.health()["probes"]["nvml"]["reason"]) == ("unknown", "it has not run yet")
    assert agent.ask(prolog(7, SLURM_JOB_GPUS="0")) == b"ok\n"


def test_a_gpu_that_fell_off_the_bus_concerns_the_jobs_that_have_it(watched: AgentProcess) -> None:
    watched.tell(prolog(7, SLURM_JOB_GPUS="0,3"), prolog(8, SLURM_JOB_GPUS="1"), prolog(9))
    kernel_of(watched).xid(79, gpu=3)
    wait_until(lambda: item(watched, 79), 5)
    told = watched.health()
    assert (told["status"], told["action"]) == ("fail", "replace")
    [finding] = findings(watched, 7, USER)
    text = f"xid 79 on 0000:3f:00: {Kernel.xid_text(79, 3)}"
    assert (finding["source"], finding["action"], finding["text"]) == ("agent", "replace", text)
    assert (finding["device"], finding["code"], finding["class"]) == ("0000:3f:00", 79, "hardware-replace")
    assert (finding["status"], finding["origin"], finding["count"]) == ("fail", "xid", 1)
    assert findings(watched, 8) == findings(watched, 9) == []
    assert len(findings(watched, 999)) == 1, "for root, of a job that is not known here: all of the node"
    assert "xid 79 on 0000:3f:00" in watched.log()


def test_the_programs_own_faults_are_told_as_such(watched: AgentProcess) -> None:
    watched.tell(prolog(7, SLURM_JOB_GPUS="0"))
    kernel_of(watched).xid(13)
    wait_until(lambda: item(watched, 13), 5)
    [finding] = findings(watched, 7)
    assert (finding["class"], finding["status"]) == ("application", "warn")
    assert finding["action"] == "restart-application"
    assert watched.health()["status"] == "warn"


def test_five_times_on_one_gpu_is_hardware(watched: AgentProcess) -> None:
    """Five crashes, not five lines of one."""
    kernel = kernel_of(watched)
    for _ in range(5):
        kernel.xid(13)
    wait_until(lambda: item(watched, 13).get("count") == 5, 5)
    assert item(watched, 13)["class"] == "application"
    watched.stop()
    for pid, ago_s in ((78, 12), (79, 9), (80, 6), (81, 3)):
        kernel.xid(13, text=f"pid={pid}, name=python, Graphics Exception", ago_s=ago_s)
    watched.start()
    wait_until(lambda: item(watched, 13).get("count") == 9, 5)
    assert (item(watched, 13)["class"], item(watched, 13)["action"]) == ("hardware-reset", "reset-gpu")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_over_a_restart_nothing_is_counted_twice(watched: AgentProcess, number: int) -> None:
    kernel = kernel_of(watched)
    kernel.xid(79)
    kernel.xid(79)
    wait_until(lambda: item(watched, 79).get("count") == 2, 5)
    if number == signal.SIGKILL:
        health = watched.layout.health
        wait_until(lambda: health.exists() and '"count":2' in health.read_text(), 5)
    watched.stop(number)
    kernel.xid(79)
    kernel.xid(48, gpu=1)
    watched.start()
    wait_until(lambda: item(watched, 48), 5)
    assert (item(watched, 79)["count"], item(watched, 48)["count"]) == (3, 1)
    watched.stop(number)
    watched.start()
    assert (item(watched, 79)["count"], item(watched, 48)["count"]) == (3, 1)


def test_the_kernel_and_nvml_tell_of_one(make_agent: Make, gpus: Gpus) -> None:
    agent = make_agent(env=gpus.environment, health=NVML).start()
    wait_until(lambda: (agent.health()["gpu_events"] or {}).get("watching") == 8, 30)
    gpus.happens(2, XID, 79)
    kernel_of(agent).xid(79, gpu=2)
    gpus.happens(4, XID, 48)  # of which the kernel's log tells nothing
    wait_until(lambda: item(agent, 48) and "fallen off" in item(agent, 79).get("text", ""), 10)
    assert (item(agent, 79)["count"], item(agent, 48)["count"]) == (1, 1)
    assert item(agent, 48)["text"].endswith("NVML tells of an XID 48 (ROBUST_CHANNEL_GPU_ECC_DBE)")
    assert item(agent, 48)["device"] == "0000:4f:00"


@pytest.mark.parametrize("is_there", [True, False])
def test_a_log_that_cannot_be_read(make_agent: Make, gpus: Gpus, is_there: bool) -> None:
    agent = make_agent(env=gpus.environment)
    agent.kernel_log.unlink()
    if is_there:
        agent.kernel_log.mkdir()
    agent.start()
    wait_until(lambda: probed(agent), 30)
    told = agent.health()
    assert told["status"] == "unknown"
    assert [(one["origin"], one["code"]) for one in told["items"]] == [("kernel-log", "no-answer")]
    assert agent.log().count("the kernel's log cannot be read") == 1
    assert agent.ask(prolog(7)) == b"ok\n"


def test_lines_that_were_lost_are_told(watched: AgentProcess) -> None:
    kernel = kernel_of(watched)
    kernel.says("one")
    wait_until(lambda: watched.health()["kernel_log"]["sequence"] == 0, 5)
    kernel.says("much later", skipped=41)
    wait_until(lambda: watched.health()["kernel_log"]["lost"] == 41, 5)
    assert "41 lines of the kernel's log were overwritten unread, after line 0" in watched.log()


def test_users_are_told_no_words_of_the_kernels_on_others(watched: AgentProcess) -> None:
    watched.tell(prolog(7, SLURM_JOB_GPUS="0"))
    killed = "Memory cgroup out of memory: Killed process 4711 (secret-name) total-vm:9kB, anon-rss:8kB, file-rss:0kB"
    kernel_of(watched).says(killed)
    wait_until(lambda: watched.health()["items"], 5)
    assert "secret-name" in watched.health()["items"][0]["text"]
    [finding] = findings(watched, 7, USER)
    assert (finding["status"], "secret-name" in finding["text"]) == ("warn", False)
    told = json.loads(watched.ask_as(USER, fields("health")))
    assert "secret-name" not in json.dumps(told) and len(told["items"]) == 1
    kernel_of(watched).says("INFO: task secret-task:4711 blocked for more than 120 seconds.")
    wait_until(lambda: len(watched.health()["items"]) == 2, 5)
    told = json.loads(watched.ask_as(USER, fields("health")))
    assert "secret-task" not in json.dumps(told) and len(told["items"]) == 2


def test_the_program_under_which_a_gpu_failed_is_told_to_its_job_and_to_root_alone(watched: AgentProcess) -> None:
    kernel_of(watched).xid(48, 1, "pid=4244, name=before, DBE (double bit error) on GPU")
    wait_until(lambda: item(watched, 48), 5)
    watched.tell(prolog(7, SLURM_JOB_GPUS="0,1"))
    kernel_of(watched).xid(48, 0, "pid=4245, name=mine, DBE (double bit error) on GPU")
    wait_until(lambda: len(watched.health()["items"]) == 2, 5)
    own = json.dumps(findings(watched, 7, USER))
    assert "name=mine" in own and own.count("double bit error") == 2
    assert "before" not in own and "4244" not in own, "a job that is over had that GPU"
    told = watched.ask_as(USER, fields("health")).decode()
    assert told.count("double bit error") == 2
    assert not any(word in told for word in ("before", "mine", "4244", "4245"))
    assert "name=before" in json.dumps(watched.health())


def test_what_anybody_wrote_counts_for_nothing(watched: AgentProcess) -> None:
    kernel = kernel_of(watched)
    kernel.xid(79, priority=12)
    kernel.xid(48)
    wait_until(lambda: item(watched, 48), 5)
    assert item(watched, 79) == {}


@pytest.mark.parametrize(
    ("key", "value", "status", "codes"),
    [
        ("driver.fails", VERSION_MISMATCH, "fail", ["driver-mismatch"]),
        ("gpu3.fails", 15, "fail", ["gpu-lost"]),
        ("gpu3.hangs", "nvmlDeviceGetMemoryErrorCounter", "unknown", ["gpu-hangs", "no-answer"]),
        ("gpu3.rows.failure", 1, "fail", ["row-remap-failure"]),
        ("driver.fails", DRIVER_NOT_LOADED, "ok", []),
    ],
)
def test_what_probes_find(make_agent: Make, gpus: Gpus, key: str, value: object, status: str, codes: list[str]) -> None:
    gpus[key] = value
    agent = make_agent(env=gpus.environment).start()
    wait_until(lambda: probed(agent), 60)
    told = agent.health()
    assert (told["status"], [one["code"] for one in told["items"]]) == (status, codes)


def test_a_health_check_wakes_the_probes(make_agent: Make, gpus: Gpus) -> None:
    """And waits for none: they hang here."""
    agent = make_agent(env=gpus.environment, health=f"{NVML}\ngpu_events = false\ncycle_s = 86400").start()
    wait_until(lambda: probed(agent), 30)
    gpus["gpu5.rows.failure"] = 1
    agent.tell(fields("health_check"))
    wait_until(lambda: item(agent, "row-remap-failure"), 30)
    assert item(agent, "row-remap-failure")["gpu"] == "0000:5f:00"
    gpus["driver.hangs"] = "*"
    for _ in range(100):
        agent.tell(fields("health_check"))
    wait_until(lambda: agent.health()["probes"]["nvml"]["running_s"] is not None, 30)
    before_s = time.monotonic()
    agent.tell(fields("health_check"), prolog(7), epilog(7))
    assert time.monotonic() - before_s < 5


@pytest.mark.parametrize(
    ("code", "gpu", "answer"),
    [
        (79, "3", b"fail replace: xid 79 on 0000:3f:00"),
        (48, "3", b"fail reset-gpu: xid 48"),
        (13, "3", b"ok\n"),
        (79, "0", b"ok\n"),
    ],
)
def test_the_gate_goes_by_the_jobs_own_gpus(make_agent: Make, gpus: Gpus, code: int, gpu: str, answer: bytes) -> None:
    """With the circuit breaker's leave, as an earlier agent got it."""
    agent = make_agent("gate = true", env=gpus.environment).start()
    wait_until(lambda: probed(agent), 30)
    kernel_of(agent).xid(code, gpu=3)
    wait_until(lambda: item(agent, code), 5)
    agent.stop()
    state = json.loads(agent.layout.health.read_text())
    state["reaction"] = {"is_marked": True, "memory": {f"xid|{code}|0000:3f:00|fail": 1}, "node": "n1"}
    agent.layout.health.write_text(json.dumps(state))
    agent.start()
    assert agent.ask(prolog(7, SLURM_JOB_GPUS=gpu)).startswith(answer)


def test_the_gate_refuses_nothing_without_the_circuit_breakers_leave(make_agent: Make, gpus: Gpus) -> None:
    """There is no slurmctld here that could be asked."""
    agent = make_agent("gate = true", env=gpus.environment).start()
    wait_until(lambda: probed(agent), 30)
    kernel_of(agent).xid(79, gpu=3)
    wait_until(lambda: item(agent, 79), 5)
    assert agent.ask(prolog(7, SLURM_JOB_GPUS="3")) == b"ok\n"
    why = "job 7 may start here, for the circuit breaker has not let this node refuse jobs, or not yet: replace: xid 79"
    assert why in agent.log()


def test_the_gate_lets_pass_what_cannot_be_told(make_agent: Make, gpus: Gpus) -> None:
    gpus["gpu0.hangs"] = "nvmlDeviceGetMemoryErrorCounter"
    agent = make_agent("gate = true", env=gpus.environment).start()
    wait_until(lambda: probed(agent), 60)
    assert (agent.health()["status"], agent.ask(prolog(7, SLURM_JOB_GPUS="0"))) == ("unknown", b"ok\n")


def test_state_that_is_damaged_is_said_and_begun_anew(watched: AgentProcess) -> None:
    kernel_of(watched).xid(79)
    wait_until(lambda: item(watched, 79), 5)
    watched.stop()
    parts = ("health", "told", "jobs", "resets", "gpu_count", "events", "kernel_log", "reaction", "offences")
    strange = [json.dumps({"schema": 1, **dict.fromkeys(parts, value)}) for value in ({"a": 1}, [1], "x", 7)]
    events = {"boot_id": BOOT_ID, "events": {"a": 1}}
    for content in (
        *("garbage", "[]", '{"schema":1,"health":{"schema":99}}', '{"schema":1,"health":{"schema":1}}'),
        json.dumps({"schema": 1, "events": events, "kernel_log": {"boot_id": BOOT_ID, "sequence": "x"}}),
        *strange,
    ):
        watched.layout.health.write_text(content)
        said = len(watched.log())
        watched.start()
        assert "what was known of this node's health is lost" in watched.log()[said:], content
        wait_until(lambda: item(watched, 79).get("count") == 1, 15)  # the log still has it
        watched.stop()


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("health", {"schema": 2}),
        ("health", "x"),
        ("health", None),
        ("told", "x"),
        ("kernel_log", {"boot_id": None}),
        ("kernel_log", {"offset_s": -1e9}),
        ("kernel_log", None),
        ("events", [7]),
    ],
)
def test_what_was_counted_and_the_place_in_the_log_stand_or_fall_together(
    watched: AgentProcess, part: str, changed: object
) -> None:
    """Else a fault would be forgotten, or counted twice. None: that part is missing."""
    kernel = kernel_of(watched)
    kernel.xid(79)
    kernel.xid(48, gpu=1)
    wait_until(lambda: item(watched, 48), 5)
    watched.stop()
    state = json.loads(watched.layout.health.read_text())
    if changed is None:
        del state[part]
    else:
        state[part] = {**state[part], **changed} if isinstance(changed, dict) else changed
    watched.layout.health.write_text(json.dumps(state))
    watched.start()
    assert f"what was known of this node's health is lost: {watched.layout.health}: {part}: " in watched.log()
    wait_until(lambda: item(watched, 48), 5)
    assert (item(watched, 79)["count"], item(watched, 48)["count"]) == (1, 1)


def test_something_else_in_the_place_of_the_state(watched: AgentProcess) -> None:
    watched.stop()
    watched.layout.health.unlink()
    os.mkfifo(watched.layout.health)
    watched.start()
    assert f"{watched.layout.health}: it is not a regular file" in watched.log()


def test_a_reboot_mends(watched: AgentProcess) -> None:
    """What a reboot mends; a GPU that is to be replaced is not."""
    kernel = kernel_of(watched)
    kernel.xid(79)
    kernel.xid(48, gpu=1)
    wait_until(lambda: item(watched, 48), 5)
    watched.stop()
    state = json.loads(watched.layout.health.read_text())
    state["health"]["boot_id"] = state["kernel_log"]["boot_id"] = "an earlier one"
    watched.layout.health.write_text(json.dumps(state))
    watched.kernel_log.write_text("")
    watched.start()
    assert (bool(item(watched, 79)), item(watched, 48)) == (True, {})


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ('probes = ["nvml", "nosuch"]', "no probe 'nosuch': [health] probes"),
        ('catalogue = "/nonexistent"', "cannot read the site's catalogue: [health] catalogue: /nonexistent"),
    ],
)
def test_what_there_is_not_is_refused(make_agent: Make, lines: str, why: str) -> None:
    done = subprocess.run(make_agent(health=lines).argv(), capture_output=True, text=True, timeout=20)
    assert (done.returncode, why in done.stderr) == (78, True), done.stderr


def test_a_sites_own_catalogue(make_agent: Make, gpus: Gpus) -> None:
    site = make_agent().directory / "site.toml"
    site.write_text('[xid.13]\nclass = "hardware-replace"\naction = "replace"\n')
    agent = make_agent(env=gpus.environment, health=f'{NVML}\ncatalogue = "{site}"').start()
    kernel_of(agent).xid(13)
    wait_until(lambda: item(agent, 13), 5)
    assert item(agent, 13)["class"] == "hardware-replace"


def test_a_gpu_that_fails_a_job_is_told_to_the_cluster(make_agent: Make, gpus: Gpus) -> None:
    """And as an offence to whoever looks for a spare."""
    agent = make_agent(env=gpus.environment, health=f"{NVML}\nlemon_jobs = 1").start()
    wait_until(lambda: probed(agent), 30)
    agent.tell(prolog(7, SLURM_JOB_GPUS="3"), prolog(8, SLURM_JOB_GPUS="1"))
    assert json.loads(agent.ask(fields("verdict", 7)))["offences"] == 0
    assert not agent.layout.node_state.exists()
    kernel_of(agent).xid(79, gpu=3)
    wait_until(lambda: json.loads(agent.ask(fields("verdict", 8)))["offences"] == 1, 15)
    told = wait_until(lambda: agent.layout.node_state.exists() and agent.layout.node_state.read_bytes(), 60)
    state = from_json(told)
    assert (state.node, state.status, state.action) == ("n1", "fail", "replace")
    assert [(one.gpu, one.job_ids) for one in state.offenders] in ([], [("0000:3f:00", ("7",))])
    agent.stop()
    agent.start()
    assert json.loads(agent.ask(fields("verdict", 8)))["offences"] == 1


def test_status_for_people(watched: AgentProcess) -> None:
    kernel_of(watched).xid(79)
    wait_until(lambda: item(watched, 79), 5)
    argv = [*watched.argv()[:2], "health", "status"]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=30, env={**watched._env, "STEPGUARD_CONFIG": str(watched.config)}
    )
    assert done.returncode == 2, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "this node: FAIL, replace"
    assert lines[1].startswith("  fail, replace: xid 79 on 0000:0f:00: NVRM: Xid (PCI:0000:0f:00): 79, pid=77")
    assert "reaction: none" in lines
