# SPDX-License-Identifier: Apache-2.0
"""What an administrator says in [health], how many GPUs slurmctld knows of, and a GPU that is reset under the agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from guarded import until
from lab.cluster import Cluster
from lab.gpus import Gpus, build
from recorded import recording_lab
from sick import STEPGUARD, health, is_probed, kernel

NODE = "n1"
REASON = "stepguard: reset-gpu: xid 48"


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    settings = '[health]\nprobes = ["nvml", "host"]\ngpu_events = false\ncycle_s = 1\nreaction = "drain"'
    with recording_lab(1, settings, gpus=2) as made:
        yield made


@pytest.fixture
def gpus(lab: Cluster) -> Gpus:
    """Two, well, of a driver that does not say what is to be done to them; the agent begins anew with them."""
    made = Gpus(lab.shared / "gpus", 2, build(lab.shared))
    for number in range(2):
        del made[f"gpu{number}.field.230"]
    restart(lab, made, with_state=False)
    return made


def restart(lab: Cluster, gpus: Gpus, *, with_state: bool) -> None:
    lab.agents.stop(NODE)
    if not with_state:
        (lab.agents.spool(NODE) / "health.json").unlink(missing_ok=True)
        (lab.root(NODE) / "dev/kmsg").write_text("")
    lab.set_daemon_environment(NODE, gpus.environment)
    lab.agents.start(NODE)
    until("its GPUs are looked at", lambda: is_probed(lab, NODE), 60, 0.2)


def item(lab: Cluster, code: object) -> dict[str, Any]:
    return next((one for one in health(lab, NODE)["items"] if one["code"] == code), {})


def reason(lab: Cluster) -> str:
    shown = lab.run(["scontrol", "-o", "show", "node", NODE], user="root").stdout
    return shown.partition(" Reason=")[2].partition(" [")[0].strip()


def kept_count(lab: Cluster) -> object:
    path = lab.agents.spool(NODE) / "health.json"
    return json.loads(path.read_text())["gpu_count"]["expected"] if path.exists() else None


def test_a_gpu_that_is_reset_is_well_again(lab: Cluster, gpus: Gpus) -> None:
    kernel(lab, NODE).xid(48, gpu=0)
    found = until("the fault is known", lambda: item(lab, 48), 15, 0.1)
    assert (found["action"], found["gpu"], health(lab, NODE)["action"]) == ("reset-gpu", "0000:0f:00", "reset-gpu")
    until("it is drained", lambda: reason(lab).startswith(REASON), 40, 0.2)
    until("probes have looked since", lambda: health(lab, NODE)["probes"]["nvml"]["age_s"] < found["age_s"] + 1, 30)
    lab.agents.stop(NODE)  # as nvidia-smi -r needs it
    gpus["gpu0.power.energy_mj"] = 2000
    lab.agents.start(NODE)
    until("it is well again", lambda: health(lab, NODE).get("status") == "ok", 60, 0.2)
    until("the drain is lifted", lambda: reason(lab) == "", 60, 0.2)
    assert "was reset (power.energy_mj was 4000000000, is 2000)" in lab.agents.log(NODE)


def test_slurmctld_says_how_many_gpus_there_are(lab: Cluster, gpus: Gpus) -> None:
    until("slurmctld has been asked", lambda: kept_count(lab) == 2, 60, 0.2)
    assert health(lab, NODE)["status"] == "ok"
    gpus.vanish(1)
    device = lab.root(NODE) / "dev/nvidia1"
    if device.exists():
        device.unlink()
    found = until("the missing GPU is noticed", lambda: item(lab, "gpu-count"), 30, 0.2)
    assert (found["status"], found["action"]) == ("fail", "reboot")
    assert "NVML finds 1; Slurm has 2" in found["text"]


def test_check_and_agent_go_by_the_same_settings(lab: Cluster, gpus: Gpus) -> None:
    path = lab.root(NODE) / "etc/stepguard/stepguard.toml"
    before = path.read_text()
    try:
        path.write_text(f'{before}mounts = ["/nowhere"]\nfilesystems = []\n')
        done = lab.run([STEPGUARD, "health", "check", "--probe", "host", "--json"], NODE, "root", check=False)
        [report] = json.loads(done.stdout)["probes"]
        assert [(one["what"], one["device"]) for one in report["findings"]] == [("mount", "/nowhere")]
        assert (done.status, report["values"]["file_systems"]) == (2, {})
        restart(lab, gpus, with_state=False)
        found = until("the agent misses the mount", lambda: item(lab, "mount"), 30, 0.2)
        assert (found["device"], found["action"], reason(lab)) == ("/nowhere", "check", "")
    finally:
        path.write_text(before)


def test_a_wrong_probe_is_refused_before_the_agent_is_restarted(lab: Cluster) -> None:
    path = lab.root(NODE) / "etc/stepguard/stepguard.toml"
    before = path.read_text()
    try:
        path.write_text(before.replace('"host"', '"hosts"'))
        done = lab.run([STEPGUARD, "agent", "--check"], NODE, "root", check=False)
        assert (done.status, "no probe 'hosts': [health] probes: there are: all, nvml" in done.stderr) == (78, True)
    finally:
        path.write_text(before)
