# SPDX-License-Identifier: Apache-2.0
"""A node that knows what is wrong with it: agents of the installed product on nodes with GPUs and a kernel's log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from guarded import until
from lab.cluster import Cluster
from lab.gpus import DRIVER_NOT_LOADED, VERSION_MISMATCH, XID, Gpus, build
from lab.kernel import Kernel
from recorded import await_scripts, record_of, recording_lab, submit

REPLACE, REBOOT = "Action:Replace", "Action:Reboot"
HEALTH = """
[health]
reaction = "{reaction}"
max_nodes = {max_nodes}
max_fraction = 1.0
probes = ["nvml"]
"""
STATUS = ["/opt/stepguard/bin/stepguard", "health", "status", "--json"]
# How long a node is watched that nothing is to be done to: longer than a mark takes.
QUIET_S = 8.0


class Node:
    """A node of the lab with GPUs that a test can break."""

    def __init__(self, lab: Cluster, name: str) -> None:
        self.lab = lab
        self.name = name
        self.kernel = Kernel(lab.root(name) / "dev/kmsg")
        self._logged = 0
        self.gpus = Gpus(lab.shared / f"gpus-{name}", 2, build(lab.shared))

    def begin(self, reaction: str = "none", max_nodes: int = 100) -> Node:
        """Starts its agent anew, with nothing known and this reaction; waits until it has looked at its GPUs."""
        if self.lab.agents.is_running(self.name):
            self.lab.agents.stop(self.name)
        (self.lab.agents.spool(self.name) / "health.json").unlink(missing_ok=True)
        (self.lab.root(self.name) / "dev/kmsg").write_text("")
        path = self.lab.root(self.name) / "etc/stepguard/stepguard.toml"
        kept = path.read_text().partition("[health]")[0].rstrip()
        path.write_text(f"{kept}\n{HEALTH.format(reaction=reaction, max_nodes=max_nodes)}")
        self._logged = len(self.lab.agents.log(self.name))
        self.start()
        until("its GPUs are looked at", lambda: self.status()["probes"]["nvml"]["age_s"] is not None, 90, 0.2)
        return self

    def start(self) -> None:
        """Starts its agent, which finds these GPUs."""
        self.lab.set_daemon_environment(self.name, self.gpus.environment)
        self.lab.agents.start(self.name)
        self.lab.set_daemon_environment(self.name, {})

    def status(self) -> dict[str, Any]:
        """What `stepguard health status --json` prints."""
        found: dict[str, Any] = json.loads(self.lab.run(STATUS, self.name, "root", check=False).stdout)
        return found

    def item(self, code: object) -> dict[str, Any]:
        """What is wrong with this code; nothing where nothing is."""
        return next((one for one in self.status()["items"] if one["code"] == code), {})

    def await_item(self, code: object, within_s: float = 15.0) -> dict[str, Any]:
        found: dict[str, Any] = until(f"{self.name} tells of {code}", lambda: self.item(code), within_s, 0.1)
        return found

    def verdict(self, job_id: str) -> list[dict[str, Any]]:
        """What its agent tells of a job."""
        program = (
            "import json, socket, sys; from stepguard.records import wire\n"
            "with socket.socket(socket.AF_UNIX) as channel:\n"
            "    channel.connect('/run/stepguard/agent.sock')\n"
            "    channel.sendall(wire.encode({'kind': b'verdict', 'job_id': sys.argv[1].encode()}))\n"
            "    print(channel.makefile().read())\n"
        )
        argv = ["/opt/stepguard/venv/bin/python", "-I", "-c", program, job_id]
        found: list[dict[str, Any]] = json.loads(self.lab.run(argv, self.name, "alice").stdout)["findings"]
        return found

    @property
    def slurms(self) -> dict[str, str]:
        """State and reason, as scontrol prints them."""
        shown = self.lab.run(["scontrol", "-o", "show", "node", self.name], user="root").stdout
        state = next(word.partition("=")[2] for word in shown.split() if word.startswith("State="))
        reason = shown.partition(" Reason=")[2].partition(" [")[0].strip()
        return {"state": state, "reason": reason}

    def await_mark(self, reason: str, within_s: float = 40.0) -> str:
        """Waits for a reason, exactly this; returns the state."""
        until(f"{self.name} has {reason}", lambda: self.slurms["reason"] == reason, within_s, 0.2)
        return self.slurms["state"]

    def stays_in_service(self) -> None:
        """Nothing is done to it, for longer than that would take."""
        end_s = time.monotonic() + QUIET_S
        while time.monotonic() < end_s:
            assert self.slurms["reason"] == "", self.slurms
            time.sleep(0.5)

    def log(self) -> str:
        """What its agents have said since the beginning."""
        return self.lab.agents.log(self.name)[self._logged :]


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    with recording_lab(2, gpus=2) as cluster:
        yield cluster


@pytest.fixture
def node(lab: Cluster) -> Iterator[Node]:
    made = Node(lab, "n1")
    yield made
    lab.run(["scancel", "--user=alice"], user="root")
    lab.run(["scontrol", "update", "nodename=n1", "state=resume"], user="root", check=False)
    lab.wait_idle(["n1"])


def test_a_gpu_off_the_bus_under_a_job(lab: Cluster, node: Node) -> None:
    node.begin("fail")
    job_id = submit(lab, "sleep 300", "--gres=gpu:1", "--nodelist=n1")
    await_scripts(lab, "n1", "sleep 300")
    before_s = time.monotonic()
    node.kernel.xid(79, gpu=0)
    item = node.await_item(79)
    assert time.monotonic() - before_s < 10  # 0.4 s where nothing else runs
    assert (item["gpu"], item["class"], item["count"]) == ("0000:0f:00", "hardware-replace", 1)
    assert node.status()["action"] == "replace"
    [finding] = [one for one in node.verdict(job_id) if one["code"] == 79]
    assert (finding["source"], finding["action"], finding["class"]) == ("agent", "replace", "hardware-replace")
    state = node.await_mark(REPLACE)
    assert set(state.split("+")) >= {"FAIL"} and state.startswith(("ALLOCATED", "MIXED")), state
    until("its agent says so", lambda: "n1 is out of service: Action:Replace" in node.log(), 15)
    lab.run(["scancel", job_id])
    until("its job has gone", lambda: node.slurms["state"] == "IDLE+FAIL", 60, 0.2)
    assert node.slurms["reason"] == REPLACE
    assert (node.status()["reaction"]["last"]["done"], node.status()["reaction"]["is_marked"]) == ("marked", True)
    lab.run(["scontrol", "update", "nodename=n1", "state=resume"], user="root")
    node.stays_in_service()  # an administrator has resumed it, and there is nothing new


def test_another_jobs_gpu(lab: Cluster, node: Node) -> None:
    node.begin()
    jobs = [submit(lab, "sleep 300", "--gres=gpu:1", "--nodelist=n1", "--exclusive=user") for _ in range(2)]
    await_scripts(lab, "n1", "sleep 300", count=2)
    node.kernel.xid(79, gpu=1)
    node.await_item(79)
    assert sorted(len(node.verdict(job_id)) for job_id in jobs) == [0, 1]
    lab.run(["scancel", *jobs])


def test_a_programs_fault_is_no_nodes_until_it_comes_again_and_again(node: Node) -> None:
    node.begin("fail")
    node.kernel.xid(13, gpu=1)
    item = node.await_item(13)
    assert (item["class"], item["status"], node.status()["status"]) == ("application", "warn", "warn")
    node.stays_in_service()
    for pid in range(78, 82):
        node.kernel.xid(13, gpu=1, text=f"pid={pid}, name=python, Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0)")
        time.sleep(2.2)  # one crash prints its lines within two seconds
    until("it counts as hardware", lambda: node.item(13)["class"] == "hardware-reset", 15)
    node.await_mark(REBOOT)


@pytest.mark.parametrize(
    ("words", "action", "status", "reason"),
    [
        ("0x1 (GPU Reset Required)", "reset-gpu", "fail", REBOOT),
        ("0x2 (Node Reboot Required)", "reboot", "fail", REBOOT),
        ("0x0 (None)", "none", "warn", ""),
    ],
)
def test_what_the_driver_itself_asks_for(node: Node, words: str, action: str, status: str, reason: str) -> None:
    """With the fault that it is about."""
    node.begin("fail")
    node.kernel.says(
        Kernel.xid_text(48), Kernel.xid_text(154, text=f"GPU recovery action changed from 0x1 (GPU Reset) to {words}")
    )
    item = node.await_item(48)
    assert (item["action"], item["status"]) == (action, status)
    if reason:
        node.await_mark(reason)
    else:
        node.stays_in_service()


def test_our_drain_is_lifted_when_the_node_is_well(lab: Cluster, node: Node) -> None:
    node.gpus["gpu1.rows.failure"] = 1
    path = lab.root("n1") / "etc/stepguard/stepguard.toml"
    node.begin("drain")
    until("it is drained", lambda: node.slurms["reason"].startswith("stepguard: replace: nvml row-remap"), 40, 0.2)
    lab.agents.stop("n1")
    path.write_text(f"{path.read_text()}clear_s = 0\ncycle_s = 2\n")
    node.gpus["gpu1.rows.failure"] = 0
    node.start()
    until("it is back", lambda: node.slurms["reason"] == "", 60, 0.2)
    until("its agent says so", lambda: "n1 is back in service" in node.log(), 15)


@pytest.mark.parametrize(
    ("key", "value", "status"),
    [
        ("driver.hangs", "*", "unknown"),
        ("driver.fails", DRIVER_NOT_LOADED, "fail"),  # for there are device files of two GPUs
        ("gpu0.hangs", "*", "unknown"),
        ("gpu0.ecc.volatile.corrected", 7, "ok"),
    ],
)
def test_what_cannot_be_told_stops_nobody(lab: Cluster, node: Node, key: str, value: object, status: str) -> None:
    node.gpus[key] = value
    node.begin("fail")
    before_s = time.monotonic()
    job_id = submit(lab, "true", "--gres=gpu:2", "--nodelist=n1")
    record = record_of(lab, job_id)
    assert (record.manifest.outcome, record.manifest.exit_status) == ("completed", 0)
    assert time.monotonic() - before_s < 60
    assert node.status()["status"] == status
    node.stays_in_service()


def test_a_driver_that_was_updated_under_the_loaded_one(node: Node) -> None:
    node.gpus["driver.fails"] = VERSION_MISMATCH
    node.begin()
    assert (node.item("driver-mismatch")["action"], node.status()["status"]) == ("reboot", "fail")
    node.stays_in_service()


def test_an_agent_that_is_killed_counts_nothing_twice(node: Node) -> None:
    """What the kernel said before, meanwhile and after; and it has marked its node once."""
    node.begin("fail")
    node.kernel.xid(79)
    node.gpus.happens(0, XID, 79)
    node.await_mark(REPLACE)
    for _ in range(2):
        node.lab.agents.kill(node.name)
        node.kernel.xid(48, gpu=1)
        node.start()
        node.await_item(48)
    assert (node.item(79)["count"], node.item(48)["count"]) == (1, 2)
    assert node.slurms["reason"] == REPLACE
    assert node.log().count("is out of service") <= 1  # none by an agent that was killed over it


def test_slurmds_health_check_wakes_the_probes(lab: Cluster, node: Node) -> None:
    node.begin()
    node.gpus["gpu0.rows.failure"] = 1
    time.sleep(5)  # so long after the last one
    lab.run(["/opt/stepguard/libexec/stepguard/health_check"], "n1", "root")
    assert node.await_item("row-remap-failure", 30)["gpu"] == "0000:0f:00"


def test_without_a_kernels_log(lab: Cluster, node: Node) -> None:
    """Nor one in the journal of journald, which does not run on the node."""
    log = lab.root("n1") / "dev/kmsg"
    node.begin("fail")
    lab.agents.stop("n1")
    log.unlink()
    node.start()
    said = until("its log is missed", lambda: node.item("no-answer"), 15)
    assert (said["origin"], said["status"]) == ("kernel-log", "unknown")
    until("it is said", lambda: node.log().count("log cannot be read yet: /dev/kmsg: No such file") == 1, 60)
    log.touch()
    node.stays_in_service()


@pytest.mark.timeout(300)
def test_all_agents_wrong_at_once() -> None:
    """A bad update of a driver: the circuit breaker keeps the cluster up."""
    with recording_lab(6, gpus=2) as lab:
        nodes = [Node(lab, name).begin("fail", max_nodes=2) for name in lab.nodes]
        for node in nodes:
            node.gpus["driver.fails"] = VERSION_MISMATCH
            node.kernel.xid(79)
        breaker = "the circuit breaker holds: "

        def all_have_tried() -> bool:
            return all(breaker in node.log() or "is out of service" in node.log() for node in nodes)

        until("all have tried", all_have_tried, 90, 0.5)
        marked = [node for node in nodes if node.slurms["reason"] == REPLACE]
        assert len(marked) == 2
        for node in nodes:
            if node not in marked:
                assert f"{breaker}{node.name} is not marked (Action:Replace) and stays in service" in node.log()
                node.stays_in_service()
        assert lab.run(["srun", "-N4", "hostname"], timeout_s=60).status == 0
