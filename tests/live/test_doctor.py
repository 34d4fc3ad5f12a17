# SPDX-License-Identifier: Apache-2.0
"""`stepguard doctor` on a real cluster: silent where all is well, and right about each thing that is broken."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guarded import PLUGSTACK
from lab.cluster import Cluster
from lab.hung import hung
from product import installed

DOCTOR = "/opt/stepguard/bin/stepguard"


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation of our own, to break."""
    copy = tmp_path_factory.mktemp("product") / "stepguard"
    shutil.copytree(installed(), copy, symlinks=True)
    return copy


@pytest.fixture(scope="module")
def cluster(prefix: Path) -> Iterator[Cluster]:
    with Cluster(3, gpus_per_node=1, plugstack=PLUGSTACK, prefix=prefix) as lab:
        yield lab


def examine(lab: Cluster, *before: str, **where: Any) -> tuple[int, dict[str, list[dict[str, str]]]]:
    """The doctor's exit status, and its results by check."""
    done = lab.run([*before, DOCTOR, "doctor", "--json"], check=False, **where)
    checks: dict[str, list[dict[str, str]]] = {}
    for result in json.loads(done.stdout)["checks"]:
        checks.setdefault(result["check"], []).append(result)
    return done.status, checks


def levels(checks: dict[str, list[dict[str, str]]], level: str) -> set[str]:
    return {name for name, results in checks.items() for result in results if result["level"] == level}


@pytest.mark.parametrize(("host", "user"), [("login", "alice"), ("ctl", "root"), ("n1", "alice")])
def test_a_whole_installation_has_no_findings(cluster: Cluster, host: str, user: str) -> None:
    status, checks = examine(cluster, host=host, user=user)
    assert status == 0, checks
    assert levels(checks, "fail") | levels(checks, "warn") == set(), checks
    assert levels(checks, "unknown") == {"nodes"}, "the lab's hosts have no shared file system, as it looks to them"
    assert {"slurm", "form", "plugstack.conf", "configuration", "python", "plugin", "srun --auto-resume"} < set(checks)
    assert {"spare", "expand", "wait", "shrink", "requeue", "silence", "accounting", "node ports"} < set(checks)


def test_it_changes_nothing(cluster: Cluster) -> None:
    before = cluster.run(["squeue", "-h", "-a", "--states=all", "-o", "%A"]).stdout
    examine(cluster)
    assert cluster.run(["squeue", "-h", "-a", "--states=all", "-o", "%A"]).stdout == before
    assert not list(cluster.home("alice").glob("slurm*"))


def test_a_plugin_for_another_release(cluster: Cluster, prefix: Path) -> None:
    plugin = prefix / "lib/slurm/stepguard.so"
    whole = plugin.read_bytes()
    major, minor = cluster.release.number
    micro = int(cluster.release.version.split(".")[2])
    own, other = (struct.pack("<I", number << 16 | minor << 8 | micro) for number in (major, major - 1))
    assert whole.count(own) == 1
    plugin.write_bytes(whole.replace(own, other))
    try:
        status, checks = examine(cluster)
    finally:
        plugin.write_bytes(whole)
    assert status == 1
    assert levels(checks, "fail") == {"plugin", "srun --auto-resume"}
    assert f"built for Slurm {major - 1}.{minor:02}" in checks["plugin"][0]["found"]
    assert "make install" in checks["plugin"][0]["advice"]


@pytest.mark.parametrize(
    ("broken", "failed", "said"),
    [
        pytest.param(
            "lib/stepguard/bridge.so", {"python", "plugin", "srun --auto-resume"}, "bridge.so", id="no bridge"
        ),
        pytest.param("lib/slurm/stepguard.so", {"plugin", "srun --auto-resume"}, "is missing", id="no plugin"),
    ],
)
def test_a_missing_part(cluster: Cluster, prefix: Path, broken: str, failed: set[str], said: str) -> None:
    away = prefix.with_name("away")
    (prefix / broken).rename(away)
    try:
        status, checks = examine(cluster)
    finally:
        away.rename(prefix / broken)
    assert (status, levels(checks, "fail")) == (1, failed), checks
    assert said in checks["plugin"][0]["found"]


def test_a_module_that_does_not_import(cluster: Cluster, prefix: Path) -> None:
    (module,) = (prefix / "venv/lib").glob("python3.*/site-packages/stepguard/bridge.py")
    away = module.with_suffix(".away")
    module.rename(away)
    try:
        status, checks = examine(cluster)
    finally:
        away.rename(module)
    assert status == 1
    assert levels(checks, "fail") == {"python", "srun --auto-resume"}
    assert "stepguard.bridge" in checks["python"][0]["found"]


def test_a_plugin_that_only_root_can_read_is_found_by_root(cluster: Cluster, prefix: Path) -> None:
    plugin = prefix / "lib/slurm/stepguard.so"
    plugin.chmod(0o600)
    try:
        _, checks = examine(cluster, user="root")
    finally:
        plugin.chmod(0o644)
    assert levels(checks, "fail") == {"plugin"}
    assert "may not be read by others" in checks["plugin"][0]["found"]


@pytest.mark.parametrize(
    ("plugstack", "level", "said"),
    [
        pytest.param("", "fail", "does not name stepguard", id="no line"),
        pytest.param(PLUGSTACK * 2, "warn", "named 2 times", id="twice"),
        pytest.param(PLUGSTACK.replace("optional", "required"), "warn", "required", id="required"),
        pytest.param(PLUGSTACK.strip() + " lint=loud\n", "warn", "lint=loud", id="bad argument"),
    ],
)
def test_the_line_in_plugstack_conf(cluster: Cluster, plugstack: str, level: str, said: str) -> None:
    cluster.reconfigure(plugstack=plugstack)
    try:
        status, checks = examine(cluster)
    finally:
        cluster.reconfigure(plugstack=PLUGSTACK)
    assert status == int(level == "fail")
    assert [result["level"] for result in checks["plugstack.conf"]] == [level]
    assert said in checks["plugstack.conf"][0]["found"]


def test_the_configuration_that_plugstack_conf_names(cluster: Cluster) -> None:
    path = cluster.write(cluster.shared / "stepguard.toml", "[resume]\nwait = 3\n")
    cluster.reconfigure(plugstack=f"{PLUGSTACK.strip()} config={path}\n")
    try:
        status, checks = examine(cluster)
        assert status == 1
        assert "unknown key 'wait'" in checks["configuration"][0]["found"]
        cluster.write(path, "[resume]\nwait_s = 3\n")
        _, checks = examine(cluster)
        assert checks["wait"][0]["found"].startswith("up to 3 s")
    finally:
        cluster.reconfigure(plugstack=PLUGSTACK)


def test_the_cluster_against_each_strategy(cluster: Cluster) -> None:
    cluster.reconfigure({"SchedulerParameters": "disable_job_shrink", "JobRequeue": "0", "SlurmdTimeout": "5"})
    try:
        status, checks = examine(cluster)
        assert (status, levels(checks, "fail"), levels(checks, "warn")) == (1, {"spare"}, {"requeue", "silence"})
        cluster.reconfigure({"SchedulerParameters": "permit_job_expansion", "PrologFlags": "Contain"})
        _, checks = examine(cluster)
        assert "expand" in levels(checks, "warn")
    finally:
        whole = {"SchedulerParameters": None, "JobRequeue": "1", "SlurmdTimeout": "300", "PrologFlags": None}
        cluster.reconfigure(whole)


def test_a_job_that_cannot_be_guarded_and_one_that_can(cluster: Cluster) -> None:
    _, checks = examine(cluster, "srun", "-N1", "-n1")
    assert "add --exclusive" in checks["this job"][0]["found"]
    _, checks = examine(cluster, "salloc", "--quiet", "--exclusive", "-N2")
    assert [result["level"] for result in checks["this job"]] == ["warn", "ok"]
    assert "not started by sbatch" in checks["this job"][0]["found"]


def test_a_node_out_of_reach(cluster: Cluster) -> None:
    cluster.cut_link("n3")
    try:
        status, checks = examine(cluster)
    finally:
        cluster.heal_link("n3")
    assert (status, levels(checks, "warn")) == (0, {"node ports"})
    assert "(n3)" in checks["node ports"][0]["found"]


def test_a_controller_that_does_not_answer(cluster: Cluster) -> None:
    cluster.stop_controller()
    try:
        status, checks = examine(cluster)
    finally:
        cluster.start_controller()
    assert (status, levels(checks, "fail")) == (1, {"slurm"})
    assert checks["srun --auto-resume"][0]["level"] == "ok", "the plugin needs no controller to answer"


def test_slurm_takes_the_examples_and_the_doctor_finds_nothing_to_change(prefix: Path) -> None:
    folder = prefix / "share/stepguard/slurm-conf-examples"
    lines = [line for path in folder.glob("*.conf") for line in path.read_text().splitlines() if line[:1] not in "#"]
    settings = dict(line.split("=", 1) for line in lines if not line.startswith("optional "))
    assert len(settings) >= 5
    plugstack = (folder / "plugstack.conf").read_text()
    with Cluster(2, slurm_conf=settings, plugstack=plugstack, prefix=prefix, agents="") as lab:
        for host, user in (("login", "alice"), ("n1", "root")):
            status, checks = examine(lab, host=host, user=user)
            assert (status, levels(checks, "fail") | levels(checks, "warn")) == (0, set()), checks
            assert checks["expand"][0]["found"] == "for jobs without GRES"
            assert {"hooks", "capture", "archive"} < set(checks)
            assert ("agent" in checks) == (host == "n1"), "a login host needs none"


@pytest.fixture(scope="module")
def recording(prefix: Path) -> Iterator[Cluster]:
    with Cluster(1, plugstack=PLUGSTACK, prefix=prefix, agents="") as lab:
        yield lab


def test_without_hooks_and_agent_one_line_says_so(cluster: Cluster) -> None:
    _, checks = examine(cluster, host="n1", user="root")
    assert [result["level"] for result in checks["records"]] == ["ok"]
    assert checks["records"][0]["advice"].endswith("slurm-conf-examples/prolog-epilog.conf")
    assert not {"hooks", "agent", "archive", "capture"} & set(checks)


def test_a_node_that_records_its_jobs(recording: Cluster) -> None:
    status, checks = examine(recording, host="n1", user="root")
    assert (status, levels(checks, "fail") | levels(checks, "warn")) == (0, set()), checks
    assert levels(checks, "unknown") == {"nodes", "archive"}, "the lab's disks are not shared, as it looks to them"
    assert "the spool holds" in checks["agent"][0]["found"]
    _, checks = examine(recording, host="n1", user="alice")
    assert "spool" not in checks["agent"][0]["found"]


def test_a_node_whose_agent_is_gone(recording: Cluster) -> None:
    recording.agents.stop("n1")
    try:
        status, checks = examine(recording, host="n1", user="root")
    finally:
        recording.agents.start("n1")
    assert (status, levels(checks, "warn")) == (0, {"agent"})
    assert "leave notes" in checks["agent"][0]["found"]


def test_an_archive_that_hangs_and_one_that_is_gone(recording: Cluster) -> None:
    with hung(recording, "n1", recording.archive):
        status, checks = examine(recording, host="n1", user="root")
        assert (status, levels(checks, "warn")) == (0, {"archive"})
        assert "does not answer" in checks["archive"][0]["found"]
    away = recording.archive.with_name("away")
    recording.archive.rename(away)
    try:
        _, checks = examine(recording, host="login")
    finally:
        away.rename(recording.archive)
    assert levels(checks, "warn") == {"archive"}
    assert "install -d -m 0711" in checks["archive"][0]["advice"]


def test_a_spool_that_others_can_read_and_hooks_that_are_missing(recording: Cluster, prefix: Path) -> None:
    spool = recording.agents.spool("n1")
    hook, away = prefix / "libexec/stepguard/prolog", prefix / "away"
    hook.rename(away)
    spool.chmod(0o755)
    try:
        status, checks = examine(recording, host="n1", user="root")
    finally:
        away.rename(hook)
        spool.chmod(0o700)
    assert (status, levels(checks, "fail"), "agent" in levels(checks, "warn")) == (1, {"hooks"}, True)
    assert any("chmod 0700" in result["found"] for result in checks["agent"])
