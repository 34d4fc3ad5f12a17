# SPDX-License-Identifier: Apache-2.0
"""Probes of the installed product on a node of the lab that has GPUs, as its agent runs them: as root, in children."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.gpus import Gpus, uuid
from lab.hung import hung
from product import installed

PYTHON = "/opt/stepguard/venv/bin/python"
LOOK = """
import json, sys
from stepguard.health.probes.document import to_document
from stepguard.health.probes.settings import Settings
from stepguard.health.probing import probe
print(json.dumps(to_document(probe("nvml", Settings(**json.loads(sys.argv[1]))))))
"""
# Two of one name after one another; the state of the first one's process, and whether it is still there at the end.
TWICE = """
import json, os, select, sys, time
from pathlib import Path
from stepguard.health.probes.settings import Settings
from stepguard.health.probing import Probes
probes = Probes()
settings = Settings(deadline_s=5.0, dev=sys.argv[1])
def child():
    of = os.getpid()
    for _ in range(2):  # the forkserver's
        of = int(Path(f"/proc/{of}/task/{of}/children").read_text().split()[0])
    return of
def wait(running):
    with running:
        while (report := running.take()) is None:
            select.select([running], [], [], 0.1)
    return report
running = probes.start("nvml", settings)
report, pid = wait(running), child()
state, deadline_s = "", time.monotonic() + 10
while state != "D" and time.monotonic() < deadline_s:  # it wakes from the signal, and sleeps again
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
second = wait(probes.start("nvml", settings))
print(json.dumps([report.status, report.reason, state, pid, second.status, second.reason]), flush=True)
sys.stdin.readline()
deadline_s = time.monotonic() + 30
while wait(probes.start("nvml", Settings())).status != "ok" and time.monotonic() < deadline_s:
    time.sleep(0.05)
print("started again")
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    with Cluster(nodes=1, gpus_per_node=8, prefix=installed()) as cluster:
        yield cluster


@pytest.fixture
def gpus(lab: Cluster) -> Gpus:
    return Gpus(lab.shared / "gpus", 8)


def look(lab: Cluster, gpus: Gpus, **settings: object) -> dict[str, Any]:
    argv = [PYTHON, "-I", "-c", LOOK, json.dumps(settings)]
    report: dict[str, Any] = json.loads(lab.run(argv, "n1", "root", env=gpus.environment).stdout)
    return report


def test_a_nodes_gpus(lab: Cluster, gpus: Gpus) -> None:
    report = look(lab, gpus, gpus_expected=8)
    assert (report["status"], report["reason"]) == ("ok", "8 GPUs, no finding")
    assert report["values"]["expected"] == {"devices": 8, "gres": 8}
    gpus.lose(3)
    gpus["gpu5.rows.failure"] = 1
    found = {one["what"]: one["device"] for one in look(lab, gpus)["findings"]}
    assert found == {"gpu-lost": "GPU 3", "row-remap-failure": uuid(5)}
    gpus.vanish(0)
    assert "NVML finds 7; device files: 8" in [one["evidence"] for one in look(lab, gpus)["findings"]]


def test_a_child_in_uninterruptible_sleep_is_left_alone_and_no_second_one_is_started(lab: Cluster, gpus: Gpus) -> None:
    server = lab.shared / "server"
    server.mkdir()
    with hung(lab, "n1", server):
        looking = lab.start([PYTHON, "-I", "-c", TWICE, str(server)], "n1", "root", env=gpus.environment, text_in="\n")
        looking.wait_output("]", 60)
        status, reason, state, pid, second, second_reason = json.loads(looking.stdout.splitlines()[0])
    assert (status, reason, state) == ("unknown", "no answer within 5 s", "D")
    assert (second, second_reason) == (
        "unknown",
        f"its last process still runs, or hangs and cannot be killed (pid {pid})",
    )
    looking.wait_output("started again", 60)
