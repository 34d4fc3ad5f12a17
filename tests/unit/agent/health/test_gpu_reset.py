# SPDX-License-Identifier: Apache-2.0
"""A real agent whose GPU is reset without a reboot, and one that knows how many GPUs there should be."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from lab.gpus import Gpus
from lab.kernel import Kernel
from unit.agent.agent_process import AgentProcess, wait_until

Make = Callable[..., AgentProcess]
SOON = 'gpu_events = false\nprobes = ["nvml"]\ncycle_s = 1'
ENERGY = "power.energy_mj"


def codes(agent: AgentProcess) -> list[object]:
    return [one["code"] for one in agent.health()["items"]]


@pytest.fixture
def agent(make_agent: Make, gpus: Gpus) -> AgentProcess:
    """Its driver does not say what is to be done to a GPU, as before 570, and one of its GPUs waits for a reset."""
    for number in range(8):
        del gpus[f"gpu{number}.field.230"]
    made = make_agent(env=gpus.environment, health=SOON).start()
    wait_until(lambda: made.health()["probes"]["nvml"]["age_s"] is not None, 30)
    kernel = Kernel(made.kernel_log)
    kernel.xid(48, gpu=2)
    kernel.xid(79, gpu=5)
    wait_until(lambda: sorted(map(str, codes(made))) == ["48", "79"], 10)
    assert made.health()["action"] == "replace"
    return made


def looks_again(agent: AgentProcess) -> None:
    """Waits until probes have looked twice, so that one of the looks is of later."""
    for _ in range(2):
        wait_until(lambda: agent.health()["probes"]["nvml"]["age_s"] > 0.5, 30)
        wait_until(lambda: agent.health()["probes"]["nvml"]["age_s"] < 0.5, 30)


def test_a_reset_mends_what_it_can(agent: AgentProcess, gpus: Gpus) -> None:
    looks_again(agent)
    gpus.update({f"gpu2.{ENERGY}": 1000, f"gpu5.{ENERGY}": 1000})
    wait_until(lambda: codes(agent) == [79], 30)
    assert "GPU-00000002-" in agent.log()
    assert "was reset (power.energy_mj was 4000000000, is 1000): what a reset mends counts no more" in agent.log()


@pytest.mark.parametrize("stop", [False, True])
def test_it_is_noticed_over_a_restart_of_the_agent(agent: AgentProcess, gpus: Gpus, stop: bool) -> None:
    looks_again(agent)
    if stop:
        agent.stop()
    gpus[f"gpu2.{ENERGY}"] = 1000
    if stop:
        agent.start()
    wait_until(lambda: codes(agent) == [79], 30)


@pytest.mark.parametrize(
    "change",
    [
        {f"gpu{number}.{ENERGY}": 1000 for number in range(8)},  # the driver was loaded anew
        {f"gpu2.{ENERGY}": 1000, "gpu2.persistence": 0},
    ],
)
def test_what_may_be_no_reset_mends_nothing(agent: AgentProcess, gpus: Gpus, change: dict[str, object]) -> None:
    looks_again(agent)
    gpus.update(change)
    looks_again(agent)
    assert sorted(map(str, codes(agent))) == ["48", "79"]


def test_a_number_that_slurm_has_told_is_what_the_probe_expects(make_agent: Make, gpus: Gpus) -> None:
    """No Slurm answers here: it is what was kept of an earlier answer."""
    agent = make_agent(env=gpus.environment, health=SOON)
    agent.layout.root.mkdir(mode=0o700)
    agent.layout.health.write_text(json.dumps({"schema": 1, "gpu_count": {"expected": 9}}))
    agent.start()
    wait_until(lambda: codes(agent) == ["gpu-count"], 30)
    [item] = agent.health()["items"]
    assert (item["status"], item["action"]) == ("fail", "reboot")
    assert "NVML finds 8; Slurm has 9" in item["text"]
