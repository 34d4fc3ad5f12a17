# SPDX-License-Identifier: Apache-2.0
"""Reading what `scontrol show` printed on the releases that stepguard runs on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stepguard.slurm import text
from stepguard.slurm.records import Job

DATA = Path(__file__).parents[2] / "data" / "slurm"
RELEASES = ["22.05", "24.11", "26.05"]


def recorded(release: str, name: str) -> str:
    return (DATA / release / f"{name}.txt").read_text()


def end_time(output: str) -> int:
    found = re.search(r"EndTime=(\S+)", output)
    assert found is not None
    time = text.parse_time(found[1])
    assert time is not None
    return time


@pytest.mark.parametrize("release", RELEASES)
def test_batch_job_with_gres(release: str) -> None:
    output = recorded(release, "show-job-batch-gres")
    end = end_time(output)
    job = text.job(output, end - 597.5)
    assert job == Job(
        id=job.id,
        user_id=65534,
        state="RUNNING",
        reason="",
        partition="main",
        qos="",
        account="",
        nodes=("n1", "n2", "n3"),
        batch_host="n1",
        is_batch=True,
        requeue_allowed=True,
        restart_count=0,
        exclusive=False,
        has_gres=True,
        time_left_s=597.5,
        end_time=end,
        num_cpus=3,
        cpus_per_node="1(x3)",
        stepmgr=False,
        het_job_id="",
        array_job_id="",
        array_task_id="",
        comment="two words JobState=FAILED",
        reservation="",
        features="",
        exit_code="0:0",
    )


@pytest.mark.parametrize("release", RELEASES)
def test_shrunk_job(release: str) -> None:
    whole = text.job(recorded(release, "show-job-batch-gres"), 0)
    shrunk = text.job(recorded(release, "show-job-batch-shrunk"), 0)
    assert shrunk == whole._replace(nodes=("n1", "n3"), num_cpus=2, cpus_per_node="1(x2)")


@pytest.mark.parametrize("release", RELEASES)
def test_cancelled_job(release: str) -> None:
    job = text.job(recorded(release, "show-job-cancelled"), 0)
    assert (job.state, job.exit_code, job.time_left_s) == ("CANCELLED", "0:15", None)


@pytest.mark.parametrize("release", RELEASES)
def test_exclusive_allocation_without_a_limit_holds_the_gres_of_its_nodes(release: str) -> None:
    job = text.job(recorded(release, "show-job-salloc-exclusive"), 0)
    assert (job.is_batch, job.exclusive, job.has_gres) == (False, True, True)
    assert (job.time_left_s, job.end_time) == (None, None)
    assert (job.num_cpus, job.cpus_per_node) == (8, "4(x2)")


@pytest.mark.parametrize("release", RELEASES)
def test_pending_job(release: str) -> None:
    job = text.job(recorded(release, "show-job-pending"), 0)
    assert (job.state, job.reason) == ("PENDING", "BeginTime")
    assert (job.nodes, job.batch_host, job.cpus_per_node, job.time_left_s) == ((), "", "", None)


def test_stepmgr_and_threads() -> None:
    job = text.job(recorded("26.05", "show-job-stepmgr"), 0)
    assert (job.stepmgr, job.num_cpus, job.cpus_per_node) == (True, 4, "")


@pytest.mark.parametrize("release", RELEASES)
def test_task_of_an_array(release: str) -> None:
    job = text.job(recorded(release, "show-job-array-task"), 0)
    assert (job.array_job_id, job.array_task_id) == (job.id, "3")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("several", ["show-job-array-running", "show-job-het-running"])
def test_several_jobs_are_not_one(release: str, several: str) -> None:
    with pytest.raises(text.Ambiguous, match="not exactly one job"):
        text.job(recorded(release, several), 0)


@pytest.mark.parametrize("release", RELEASES)
def test_component_of_a_het_job(release: str) -> None:
    first = re.split(r"\n\n(?=JobId=)", recorded(release, "show-job-het-running"))[0]
    job = text.job(first, 0)
    assert job.het_job_id == job.id


@pytest.mark.parametrize("release", RELEASES)
def test_imitated_output_is_not_read(release: str) -> None:
    with pytest.raises(text.Ambiguous):
        text.job(recorded(release, "show-job-hostile"), 0)


FORGED_HEAD = "   JobState=COMPLETED Reason=None Dependency=(null)\n   NodeList=n9"


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    "name",
    [
        f"x\n{FORGED_HEAD}",
        "x\n   UserId=root(0) GroupId=root(0) MCS_label=N/A",
        "x\n   Requeue=1 Restarts=9 BatchFlag=1 Reboot=0 ExitCode=0:0",
        "x\n   BatchHost=n9",
        "x\n   TRES=gres/gpu=1\n   ReqTRES=gres/gpu=1",
        "x\n   Command=/bin/true",
        "x\nJobId=7 JobName=x",
    ],
)
def test_no_name_of_a_job_changes_what_is_read(release: str, name: str) -> None:
    """Either the answer is that of the job under an innocent name, or there is none."""
    output = recorded(release, "show-job-salloc-exclusive")
    assert "JobName=no-shell" in output
    try:
        job = text.job(output.replace("JobName=no-shell", f"JobName={name}"), 0)
    except text.Ambiguous:
        return
    assert job == text.job(output, 0)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", ["a BatchHost=n9 b", "a\nb", "a\n\tJobState=FAILED", "JobName=b", "", "é\udcff"])
def test_odd_names_are_harmless(release: str, name: str) -> None:
    output = recorded(release, "show-job-salloc-exclusive")
    assert text.job(output.replace("JobName=no-shell", f"JobName={name}"), 0) == text.job(output, 0)


@pytest.mark.parametrize("release", RELEASES)
def test_texts_below_the_command_are_harmless(release: str) -> None:
    output = recorded(release, "show-job-batch-gres")
    forged = output.replace("Comment=two words", f"Comment=two words\n{FORGED_HEAD}\n   Requeue=0 Restarts=9\n ")
    job = text.job(output, 0)
    assert text.job(forged, 0) == job._replace(comment="two words")


def test_nothing_is_not_a_job() -> None:
    with pytest.raises(text.Ambiguous):
        text.job("", 0)


@pytest.mark.parametrize("release", RELEASES)
def test_steps(release: str) -> None:
    batch, train = text.steps(recorded(release, "show-step-batch-gres"))
    assert (batch.id, batch.nodes, batch.srun_host, batch.srun_pid) == ("batch", ("n1",), "", 0)
    assert (train.id, train.name, train.state, train.nodes) == ("0", "train", "RUNNING", ("n1", "n2"))
    assert (train.srun_host, train.srun_pid > 0, train.num_tasks) == ("ctl", True, 2)
    assert batch.job_id == train.job_id


@pytest.mark.parametrize("release", RELEASES)
def test_no_steps(release: str) -> None:
    assert text.steps(recorded(release, "show-step-pending")) == []


def test_name_of_a_step_may_hold_anything() -> None:
    output = recorded("22.05", "show-step-batch-gres").replace(
        "Name=train", "Name=a Network=b\n   SrunHost:Pid=evil:1\n   State=FAILED Tasks=9 Name=c"
    )
    step = text.steps(output)[1]
    assert (step.state, step.num_tasks, step.srun_host) == ("RUNNING", 2, "ctl")


@pytest.mark.parametrize("release", RELEASES)
def test_nodes(release: str) -> None:
    first, second = text.nodes(recorded(release, "show-node"))
    assert (first.name, first.address, first.port, first.cpus) == ("n1", "10.9.9.1", 7001, 4)
    assert (first.states, first.reason) == (frozenset({"MIXED"}), "")
    assert (second.states, second.reason) == (frozenset({"MIXED", "FAIL"}), "Action:Replace")
    assert first.boot_time is not None
    assert first.slurmd_start_time is not None
    assert first.boot_time < first.slurmd_start_time


@pytest.mark.parametrize("release", RELEASES)
def test_node_that_is_down(release: str) -> None:
    (node,) = text.nodes(recorded(release, "show-node-down"))
    assert (node.states, node.reason) == (frozenset({"DOWN", "NOT_RESPONDING"}), "Action:Reboot XID 79")


def test_reason_of_several_lines() -> None:
    output = recorded("22.05", "show-node-down")
    output = (
        output.replace("Reason=Action:Reboot XID 79", "Reason=one").rstrip() + "\n             two\n   Comment=c d\n"
    )
    (node,) = text.nodes(output)
    assert (node.reason, node.reason_user, node.comment) == ("one two", "root", "c d")


@pytest.mark.parametrize("release", RELEASES)
def test_who_set_a_reason_and_when(release: str) -> None:
    first, second = text.nodes(recorded(release, "show-node"))
    assert (first.partitions, first.reason_user, first.reason_time, first.comment) == (("main",), "", None, "")
    assert first.gres == "gpu:2"
    assert second.reason_user == "root"
    times = {"22.05": "14:37:51", "24.11": "14:38:06", "26.05": "14:38:22"}
    assert second.reason_time == text.parse_time(f"2026-11-29T{times[release]}")


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("drained [bob@2020-01-01T00:00:00]", ("drained [bob@2020-01-01T00:00:00]", "root")),
        ("[x@y]", ("[x@y]", "root")),
        ("disk [sdb] bad", ("disk [sdb] bad", "root")),
    ],
)
def test_a_reason_may_imitate_what_slurm_adds(reason: str, said: tuple[str, str]) -> None:
    output = recorded("22.05", "show-node-down").replace("Action:Reboot XID 79", reason)
    (node,) = text.nodes(output)
    assert (node.reason, node.reason_user) == said
    assert node.reason_time == text.parse_time("2026-11-29T14:51:22")


@pytest.mark.parametrize(("release", "numbers"), [("22.05", (22, 5, 8)), ("24.11", (24, 11, 5)), ("26.05", (26, 5, 5))])
def test_config(release: str, numbers: tuple[int, ...]) -> None:
    config = text.config(recorded(release, "show-config"))
    assert (config.cluster_name, config.release, config.slurmctld_places) == ("lab", numbers, (("10.9.9.1", 6817),))
    assert config.scheduler_parameters == ("permit_job_expansion",)
    assert config.prolog_flags == frozenset()
    assert (config.slurmd_timeout_s, config.return_to_service, config.job_requeue) == (300, 1, True)
    assert (config.select_type, config.credential_lifetime_s) == ("select/cons_tres", 120)


def test_config_with_values() -> None:
    output = recorded("22.05", "show-config")
    output = re.sub(r"(?m)^AuthInfo .*$", "AuthInfo = socket=/x,cred_expire=30", output)
    output = re.sub(r"(?m)^PrologFlags .*$", "PrologFlags = Alloc,Contain", output)
    output = re.sub(r"(?m)^(SlurmctldHost)\[0\].*$", r"\1[0] = a(10.0.0.1)\n\1[1] = b", output)
    config = text.config(output)
    assert config.credential_lifetime_s == 30
    assert config.prolog_flags == {"Alloc", "Contain"}
    assert config.slurmctld_places == (("10.0.0.1", 6817), ("b", 6817))


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("22.05.8", (22, 5, 8)), ("slurm-wlm 26.05.5", (26, 5, 5)), ("25.11.0-0rc1", (25, 11, 0)), ("nothing", ())],
)
def test_release(version: str, numbers: tuple[int, ...]) -> None:
    assert text.parse_release(version) == numbers


@pytest.mark.parametrize(
    ("cpus", "written"), [([], ""), ([4], "4"), ([4, 4, 4], "4(x3)"), ([4, 4, 2], "4(x2),2"), ([1, 2, 1], "1,2,1")]
)
def test_cpus_per_node(cpus: list[int], written: str) -> None:
    assert text.cpus_per_node(cpus) == written


@pytest.mark.parametrize(
    ("words", "exclusive"),
    [
        # As 26.05.5 shows a job that srun allocated for itself: plain, --oversubscribe, --exclusive, --exclusive=user.
        ("OverSubscribe=NO Exclusive=NO", False),
        ("OverSubscribe=YES Exclusive=NO", False),
        ("OverSubscribe=NO Exclusive=NODE", True),
        ("OverSubscribe=NO Exclusive=USER", False),
        # As 22.05.8 and 24.11.5 do.
        ("OverSubscribe=OK", False),
        ("OverSubscribe=NO", True),
    ],
)
def test_whether_a_job_shares_its_nodes(words: str, exclusive: bool) -> None:
    output = recorded("26.05", "show-job-pending").replace("OverSubscribe=OK Exclusive=NO", words)
    assert words in output
    assert text.job(output, 0).exclusive is exclusive
