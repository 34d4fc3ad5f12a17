# SPDX-License-Identifier: Apache-2.0
"""What the kernel says by way of journald or of a log file leads to the same as what it says in /dev/kmsg: the same
finding, mark and resume, once, over a restart of the agent in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guarded import hosts_of, new_job, until
from lab.cluster import Cluster
from lab.journald import PROGRAM, KmsgPipe
from lab.kernel import Kernel
from lab.processes import Process
from sick import GPUS_PER_NODE, STEPGUARD, health, is_probed, sick_lab, slurms_word

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

NODE, PCI = "n1", "0000:0f:00"
LOG = "/var/log/kern.log"
STEP = f"srun --auto-resume=1 -N2 -n2 --gres=gpu:{GPUS_PER_NODE}"


def items(lab: Cluster, code: object) -> list[dict[str, Any]]:
    return [one for one in health(lab, NODE)["items"] if one["code"] == code]


def restart(lab: Cluster, meanwhile: Callable[[], object] = lambda: None) -> None:
    """An agent that is killed, and the next one."""
    lab.agents.kill(NODE)
    meanwhile()
    lab.agents.start(NODE)
    until("it knows its GPUs", lambda: is_probed(lab, NODE), 60, 0.2)


def read_from(lab: Cluster) -> tuple[str, str]:
    """The source, and why it cannot be read."""
    log = health(lab, NODE)["kernel_log"]
    return log["path"], log["why"]


def leads_to_a_resume(lab: Cluster, says: Callable[[str], object], rotate: Callable[[], object]) -> None:
    """An XID 79 under a guarded step, and another fault while no agent runs."""
    job = new_job(lab)
    job.submit(f"{STEP} {job.ring(300)}", "-N3", "--exclusive", f"--gres=gpu:{GPUS_PER_NODE}")
    assert hosts_of(job.await_steps(10)) == {"n1", "n2"}
    says(Kernel.xid_text(79))
    assert hosts_of(job.await_steps(5, attempt=1)) == {"n2", "n3"}
    until("it is marked", lambda: slurms_word(lab, NODE)[1] == "Action:Replace", 30, 0.3)
    assert f"Verdict: hardware: n1: xid 79 on {PCI}: {Kernel.xid_text(79)} (agent: replace)\n" in job.out()
    [item] = items(lab, 79)
    assert (item["class"], item["action"], item["count"]) == ("hardware-replace", "replace", 1)
    rotate()
    restart(lab, lambda: says(Kernel.xid_text(48, gpu=1)))
    until("what was said meanwhile is heard", lambda: items(lab, 48), 30, 0.2)
    rotate()
    restart(lab)
    says(Kernel.xid_text(48, gpu=1))
    until("it is counted twice", lambda: items(lab, 48)[0]["count"] == 2, 30, 0.2)
    assert [one["count"] for one in (*items(lab, 79), *items(lab, 48))] == [1, 2]
    assert job.await_end(120) == "COMPLETED"


def children_of(lab: Cluster, program: str) -> list[int]:
    return [pid for pid, command in lab.processes(NODE).items() if command.startswith(f"{program} ")]


@pytest.mark.skipif(not PROGRAM.exists(), reason="there is no systemd-journald here")
def test_by_way_of_journald() -> None:
    """The real one, on the node; what `logger` writes counts for nothing, nor does what root writes to /dev/kmsg."""
    with sick_lab(3, reaction="fail", more='kernel_log = "journald"\n') as lab:
        kmsg, daemon = journald(lab)
        restart(lab)
        until("it is read", lambda: read_from(lab) == ("journald", ""), 90, 0.2)
        forged = Kernel.xid_text(79, gpu=1)
        logger = ["logger", "--socket=/run/systemd/journal/dev-log", "-p", "kern.err", "-t", "kernel", forged]
        lab.run(logger, NODE, "alice")
        kmsg.says(forged, priority=12)
        leads_to_a_resume(lab, kmsg.says, lambda: lab.run(["journalctl", "--rotate"], NODE, "root"))
        [reader] = children_of(lab, "journalctl")
        assert "kernel log: journald: read\n" in lab.run([STEPGUARD, "health", "status"], NODE, check=False).stdout
        lab.agents.kill(NODE)
        until("it has died with its agent", lambda: reader not in lab.processes(NODE), 10, 0.1)
        daemon.kill()
        kmsg.close()


def journald(lab: Cluster) -> tuple[KmsgPipe, Process]:
    """A node's kernel, and the daemon that hears it."""
    path = lab.root(NODE) / "dev/kmsg"
    path.unlink()
    kmsg = KmsgPipe(path)
    (lab.root(NODE) / "run/systemd").mkdir()
    # It wants cgroups, of which Slurm on the node is not to see any.
    script = f"mount -t cgroup2 none /sys/fs/cgroup && exec {PROGRAM}"
    daemon = lab.start(["unshare", "--mount", "--propagation=private", "sh", "-c", script], NODE, "root")
    kmsg.says("Linux version 6.1.0")
    return kmsg, daemon


class LogFile:
    """A syslog daemon's, on a node."""

    def __init__(self, lab: Cluster) -> None:
        self._path: Path = lab.root(NODE) / LOG.lstrip("/")
        self.says("Linux version 6.1.0")

    def says(self, text: str) -> None:
        with self._path.open("a") as file:
            file.write(f"{time.strftime('%b %e %H:%M:%S')} n1 kernel: {text}\n")

    def rotate(self) -> None:
        """As logrotate does."""
        self._path.rename(f"{self._path}.1")
        self._path.touch()


def test_by_way_of_a_log_file_that_is_trusted() -> None:
    with sick_lab(3, reaction="fail", more=f'kernel_log = "{LOG}"\nkernel_log_trusted = true\n') as lab:
        log = LogFile(lab)
        restart(lab)
        until("it is read", lambda: read_from(lab) == (LOG, ""), 90, 0.2)
        leads_to_a_resume(lab, log.says, log.rotate)


def test_a_log_file_that_anybody_can_write_to_decides_nothing() -> None:
    """It is told, and another witness is believed as ever."""
    with sick_lab(1, reaction="fail", more=f'kernel_log = "{LOG}"\n') as lab:
        log = LogFile(lab)
        restart(lab)
        log.says(Kernel.xid_text(79))
        [item] = until("it is told", lambda: items(lab, "xid 79"), 30, 0.2)
        assert (item["origin"], item["status"], item["action"]) == ("unproven", "unknown", "check")
        assert health(lab, NODE)["status"] == "unknown"
        shown = lab.run([STEPGUARD, "health", "status"], NODE, "root", check=False).stdout
        assert f"unknown, check: unproven xid 79 on {PCI}: {Kernel.xid_text(79)} (" in shown
        assert f"kernel log: {LOG}: read, not trusted\n" in shown
        time.sleep(6)
        assert slurms_word(lab, NODE)[1] == ""
        assert lab.run(["srun", "-w", NODE, "--gres=gpu:1", "true"]).status == 0
