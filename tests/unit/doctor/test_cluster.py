# SPDX-License-Identifier: Apache-2.0
"""The cluster, its nodes, the host and the job that the doctor finds itself in."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from stepguard.config import Resume
from stepguard.doctor.cluster import check_releases, no_client
from stepguard.doctor.detection import check_accounting, check_ports, check_timing
from stepguard.doctor.job import check_job
from stepguard.doctor.result import Level
from stepguard.doctor.sharing import check_sharing, file_system
from stepguard.resume.reach import answering
from stepguard.slurm.records import ClusterConfig, Job, Node

# /proc/self/mountinfo of a node: a root disk, NFS software, and a mount point with a space in its name.
MOUNTS = r"""
24 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
31 24 0:45 / /opt rw,nosuid shared:9 - nfs4 store:/opt rw,vers=4.2
32 24 0:46 / /optional rw shared:9 - xfs /dev/vdb rw
33 24 0:47 / /mnt/a\040b rw - lustre mds@tcp:/fs rw
34 31 253:1 / /opt/local rw - ext4 /dev/vdc rw
"""


@pytest.mark.parametrize(
    ("said", "level"),
    [
        ("fatal: Could not establish a configuration source: srun --version", Level.UNKNOWN),
        ("fatal: Unable to process configuration file: srun --version", Level.UNKNOWN),
        ("cannot start: No such file or directory: srun: is it installed and in PATH?", Level.UNKNOWN),
        ("no answer within 20 s: srun: is slurmctld up?", Level.FAIL),
        ("error: Plug-in initialization failed: srun --version", Level.FAIL),
    ],
)
def test_a_host_without_a_cluster_is_told_from_a_broken_srun(said: str, level: Level) -> None:
    result = no_client(said)
    assert (result.level, said in result.found) == (level, True)


@pytest.mark.parametrize(
    ("client", "controller", "level", "said"),
    [
        ((22, 5, 8), (22, 5, 11), Level.OK, "Slurm 22.05.8"),
        ((24, 11, 5), (25, 5, 0), Level.OK, "25.05.0 on the controller"),
        ((21, 8, 8), (22, 5, 8), Level.FAIL, "older than stepguard knows"),
    ],
)
def test_releases(client: tuple[int, ...], controller: tuple[int, ...], level: Level, said: str) -> None:
    result = check_releases(client, controller)
    assert (result.level, said in result.found) == (level, True)


@pytest.mark.parametrize(("timeout_s", "level"), [(300, Level.OK), (0, Level.OK), (10, Level.WARN), (12, Level.OK)])
def test_slurm_must_not_be_faster_than_we_are(cluster: ClusterConfig, timeout_s: int, level: Level) -> None:
    assert check_timing(cluster._replace(slurmd_timeout_s=timeout_s), Resume()).level is level


@pytest.mark.parametrize("kind", ["", "accounting_storage/none", "none"])
def test_without_accounting_a_cancelled_step_is_not_known(cluster: ClusterConfig, kind: str) -> None:
    assert check_accounting(cluster._replace(accounting_storage_type=kind)).level is Level.WARN
    assert check_accounting(cluster).level is Level.OK


def node(name: str, address: str, port: int) -> Node:
    return Node(name, address, port, frozenset({"IDLE"}), "", None, None, 8, ("main",), "", None, "")


def test_nodes_that_answer_and_nodes_that_do_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # A name of no host: what a firewall that drops packets looks like, without waiting for it.
        nodes = [node("n1", "127.0.0.1", port), node("n2", "no-such-host.invalid", port)]
        assert check_ports(nodes[:1], 1.0, answering, "alice").level is Level.OK
        result = check_ports(nodes, 1.0, answering, "alice")
    assert result.level is Level.WARN
    assert "1 of 2 nodes" in result.found
    assert "(n2)" in result.found
    assert f"TCP port {port}" in result.advice
    assert check_ports([], 1.0, answering, "alice").level is Level.UNKNOWN


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/opt/stepguard", "nfs4"),
        ("/optional/stepguard", "xfs"),
        ("/opt/local/stepguard", "ext4"),
        ("/srv", "ext4"),
        ("/mnt/a b/stepguard", "lustre"),
    ],
)
def test_the_file_system_is_that_of_the_innermost_mount(path: str, kind: str) -> None:
    assert file_system(Path(path), MOUNTS) == kind


def test_an_installation_of_this_host_alone_is_unknown_on_the_others() -> None:
    assert check_sharing(Path("/opt/stepguard"), MOUNTS).level is Level.OK
    result = check_sharing(Path("/srv/stepguard"), MOUNTS)
    assert (result.level, "srun -N1 /srv/stepguard/bin/stepguard doctor" in result.advice) == (Level.UNKNOWN, True)
    assert file_system(Path("/srv"), "nonsense\n") == ""


@pytest.mark.parametrize(
    ("changes", "levels", "said"),
    [
        ({}, [Level.OK], "at most 2 of its 3 nodes"),
        ({"nodes": ("n1",)}, [Level.OK], "it has one node"),
        ({"time_left_s": None}, [Level.OK], "can be guarded"),
        ({"time_left_s": 30.0}, [Level.WARN, Level.OK], "30 s are left"),
        ({"is_batch": False}, [Level.WARN, Level.OK], "not started by sbatch"),
        ({"requeue_allowed": False}, [Level.WARN, Level.OK], "(n1)"),
    ],
)
def test_a_job_that_can_be_guarded(job: Job, changes: dict[str, Any], levels: list[Level], said: str) -> None:
    results = check_job(job._replace(**changes), "", Resume())
    assert [result.level for result in results] == levels
    assert any(said in result.found for result in results)


def test_a_job_that_cannot_be_guarded_hears_auto_resumes_own_words(job: Job) -> None:
    (result,) = check_job(job, "add --exclusive", Resume())
    assert (result.level, result.found) == (Level.WARN, "add --exclusive")
