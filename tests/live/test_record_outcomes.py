# SPDX-License-Identifier: Apache-2.0
"""However Slurm ends a job, its record and `stepguard jobs` say so; a job that says nothing has a whole record too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from guarded import await_task, until
from lab.cluster import Cluster
from recorded import Record, await_state, record_of, recording_lab, submit

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

STEPGUARD = "/opt/stepguard/bin/stepguard"
SETTINGS = {
    "AuthInfo": "cred_expire=5",
    "KillWait": "3",
    "ReturnToService": "2",
    "SchedulerParameters": "bf_interval=1,sched_interval=1,sched_min_interval=1",
}
# Of a shell and its child, which are sent SIGTERM together, either may be the first that notices.
TERMINATED = r"(killed by SIGTERM \(15\)|exit status 143 \(128 \+ SIGTERM\))"
TRAPPED = "trap 'exit 0' TERM; echo begun; sleep 300 & wait"


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    with recording_lab(4, slurm_conf=SETTINGS) as cluster:
        yield cluster


def begin(lab: Cluster, body: str, *options: str) -> str:
    """Submits a job and waits until its script has begun, which its output says."""
    job_id = submit(lab, body, "-J", "train", "-o", "%j.out", *options)
    out = lab.home() / f"{job_id}.out"
    until("it runs", lambda: out.exists() and "begun" in out.read_text(), 60, 0.2)
    return job_id


def listed(lab: Cluster, job_id: str, attempt: int = 0) -> str:
    """What `stepguard jobs` calls the attempt."""
    jobs = json.loads(lab.run([STEPGUARD, "jobs", "--json", "--limit", "0"]).stdout)["jobs"]
    return str(next(one["outcome"] for one in jobs if (one["job_id"], one["attempt"]) == (job_id, attempt)))


def page(lab: Cluster, job_id: str, *options: str) -> str:
    return lab.run([STEPGUARD, "job", job_id, *options], check=False).stdout


@pytest.mark.parametrize(
    ("body", "how"),
    [
        ("echo begun; sleep 300", []),
        (TRAPPED, []),
        ("echo begun; sleep 300", ["--full"]),
        ("echo begun; sleep 300", ["--signal=KILL"]),
        ("echo begun; srun sleep 300; echo after", []),
        ("echo begun; exec >/dev/null 2>&1; sleep 300", []),
    ],
    ids=["plain", "trapped", "full", "kill", "in a step", "elsewhere"],
)
def test_a_cancelled_job(lab: Cluster, body: str, how: list[str]) -> None:
    job_id = begin(lab, body)
    lab.run(["scancel", *how, job_id])
    await_state(lab, job_id, "CANCELLED")
    record = record_of(lab, job_id)
    assert record.manifest.outcome == "cancelled"
    assert record.manifest.outcome_why.startswith(f"its output says *** JOB {job_id} ON ")
    assert listed(lab, job_id) == "cancelled"
    assert page(lab, job_id).startswith(f"Job {job_id} train: cancelled, ")
    assert job_id in lab.run([STEPGUARD, "jobs", "--state", "failed"]).stdout.split()
    assert job_id not in lab.run([STEPGUARD, "jobs", "--state", "completed"]).stdout.split()


def test_a_cancelled_job_without_output(lab: Cluster) -> None:
    job_id = submit(lab, f"touch begun.$SLURM_JOB_ID; {TRAPPED.replace('exit 0', 'exit 3')}", "-o", "/dev/null")
    until("it runs", (lab.home() / f"begun.{job_id}").exists, 30)
    lab.run(["scancel", job_id])
    record = record_of(lab, job_id)
    why = "Slurm ended the job before its batch script ended; what for, nothing tells"
    assert (record.manifest.outcome, record.manifest.outcome_why) == ("cancelled", why)
    assert (record.manifest.exit_status, record.manifest.exit_signal) == (3, 0)


@pytest.mark.parametrize("body", ["echo begun; sleep 300", TRAPPED], ids=["plain", "trapped"])
def test_a_job_that_reaches_its_time_limit(lab: Cluster, body: str) -> None:
    job_id = submit(lab, body, "-o", "%j.out", "--time=1")
    await_state(lab, job_id, "TIMEOUT", within_s=150)
    assert record_of(lab, job_id).manifest.outcome == listed(lab, job_id) == "timeout"
    assert " DUE TO TIME LIMIT ***\n\n" in page(lab, job_id)


def test_a_requeued_job(lab: Cluster) -> None:
    job_id = begin(lab, '[ -n "$SLURM_RESTART_COUNT" ] || { echo begun; sleep 300; }', "--requeue")
    lab.run(["scontrol", "requeue", job_id])
    second = record_of(lab, job_id, 1, within_s=150)
    assert (record_of(lab, job_id).manifest.outcome, second.manifest.outcome) == ("requeued", "completed")
    assert (listed(lab, job_id), listed(lab, job_id, 1)) == ("requeued", "completed")
    shown = page(lab, f"{job_id}.0")
    assert re.match(rf"Job {job_id} train: requeued, {TERMINATED}\n", shown), shown


def test_jobs_that_end_by_themselves(lab: Cluster) -> None:
    bodies = {"completed": "true", "failed": "exit 3", "killed": "kill -TERM $$", "step": "srun sh -c 'kill -9 $$'"}
    job_ids = {name: submit(lab, body, "--", "/dev/stdin", "--lr=0.1", "a b") for name, body in bodies.items()}
    records: dict[str, Record] = {name: record_of(lab, job_id) for name, job_id in job_ids.items()}
    assert {name: record.manifest.outcome for name, record in records.items()} == {
        "completed": "completed",
        "failed": "failed",
        "killed": "failed",
        "step": "failed",
    }
    silent = records["completed"]
    assert (silent.output(), silent.lacks, silent.manifest.argv) == (b"", [], ["--lr=0.1", "a b"])
    said = lab.run([STEPGUARD, "job", job_ids["completed"], "stdout"])
    assert (said.stdout, said.stderr) == ("", "")
    assert "\n  arguments   --lr=0.1 'a b'\n" in page(lab, job_ids["completed"])


@pytest.mark.parametrize("option", ["--output=/nonexistent/out", "--chdir=/nonexistent", "--input=/nonexistent/in"])
def test_a_job_whose_output_or_input_slurm_cannot_open(lab: Cluster, option: str) -> None:
    job_id = submit(lab, "echo begun", option)
    record = record_of(lab, job_id)
    assert (record.manifest.outcome, record.manifest.exit_signal) == ("failed", 53)
    why = "its script did not begin: Slurm could not open its stdin, stdout or stderr"
    assert record.manifest.outcome_why.startswith(why)
    assert why in " ".join(page(lab, job_id).split())


def test_a_job_whose_step_cannot_be_created(lab: Cluster) -> None:
    nobody = ["setpriv", "--reuid=4242", "--regid=4242", "--clear-groups"]
    done = lab.run([*nobody, "srun", "-D", "/tmp", "true"], user="root", check=False)
    found = re.search(r"Unable to create step for job (\d+)", done.stderr)
    assert found, done.stderr
    record = record_of(lab, found[1])
    assert (record.manifest.outcome, record.manifest.uid) == ("failed", 4242)
    assert (record.manifest.exit_status, record.manifest.exit_signal) == (1, 0)
    fields = ["sacct", "-n", "-P", "-X", "-j", found[1], "-o", "state,exitcode"]
    told = until("accounting", lambda: "FAILED" in (s := lab.run(fields, user="root").stdout) and s, 30, 0.5)
    assert told.strip() == "FAILED|1:0"


def test_a_task_that_sighup_ended(lab: Cluster) -> None:
    done = lab.run(["srun", "sh", "-c", "echo $SLURM_JOB_ID; kill -HUP $$"], check=False)
    manifest = record_of(lab, done.stdout.strip()).manifest
    assert (manifest.outcome, manifest.exit_status, manifest.exit_signal) == ("failed", 0, 1)


def test_the_name_of_a_job_whose_script_comes_on_stdin(lab: Cluster) -> None:
    for options, name in ([], "sbatch"), (["-J", "mine"], "mine"):
        record = record_of(lab, submit(lab, "true", "-o", "/dev/null", *options))
        shown = lab.run(["scontrol", "-o", "show", "job", record.manifest.job_id], user="root").stdout
        assert f" JobName={name} " in shown
        assert record.manifest.name == name
        assert not any("name" in one.what for one in record.manifest.missing)


def test_a_slow_epilog_is_no_part_of_what_the_job_took() -> None:
    with recording_lab(1) as lab:
        epilog = lab.write("epilog", "#!/bin/sh\nsleep 8\nexec /opt/stepguard/libexec/stepguard/epilog\n", mode=0o755)
        lab.reconfigure({"Epilog": str(epilog)})
        manifest = record_of(lab, submit(lab, "true", "-o", "/dev/null"), within_s=60).manifest
        assert manifest.start_s is not None
        assert manifest.end_s is not None
        assert manifest.end_s - manifest.start_s < 6


def test_each_part_of_a_het_job_shows_its_own_nodes(lab: Cluster) -> None:
    lab.write("het.sh", "#!/bin/bash\nsrun --het-group=0,1 hostname\n", mode=0o755)
    first = lab.run(["sbatch", "--parsable", "-N1", "-o", "het.out", ":", "-N2", "het.sh"]).stdout.strip()
    parts = [record_of(lab, str(int(first) + offset)) for offset in (0, 1)]
    for offset, part in enumerate(parts):
        shown = page(lab, f"{first}+{offset}")
        assert f"\n  nodes       {part.manifest.node_list}" in shown, shown
        assert set(part.nodes) == set(part.manifest.nodes), shown
        assert part.step("0").nodes == part.manifest.node_list, shown


def test_a_node_that_goes_down_and_stays_down(lab: Cluster) -> None:
    job_id = begin(lab, "echo begun; srun -N2 sleep 300", "-N2", "--no-requeue", "-w", "n1,n4")
    await_task(lab, "n4", "sleep 300")
    lab.power_off("n4")
    lab.run(["scontrol", "update", "nodename=n4", "state=down", "reason=test"], user="root")
    await_state(lab, job_id, "NODE_FAIL")
    shown = until("its record", lambda: "n4: it may" in (s := page(lab, job_id)) and s, 30, 0.5)
    assert re.match(rf"Job {job_id} train: node-fail, {TERMINATED}\n", shown), shown
    assert "\n  no word of n4: it may be down, or its agent\n" in shown


@pytest.mark.parametrize("faulty", ["n1", "n2"], ids=["first node", "another"])
def test_a_job_that_the_gate_refuses(faulty: str) -> None:
    settings = {**SETTINGS, "PrologFlags": "Alloc"}
    with recording_lab(2, "[agent]\ngate = true", slurm_conf=settings) as lab:
        fault = "/run/stepguard/fault"
        lab.run(["sh", "-c", f"echo 'replace: XID 79' > {fault}"], host=faulty, user="root")
        job_id = submit(lab, "echo begun", "-N2", "--requeue")
        record = record_of(lab, job_id, within_s=60)
        (finding,) = [one for part in record.nodes.values() for one in part.findings]
        assert (finding.code, finding.node, finding.text) == ("gate", faulty, "no job may start here: replace: XID 79")
        refused = f"the gate refused it on {faulty}"
        if faulty == "n1":
            assert (record.manifest.outcome, record.manifest.outcome_why) == ("ended", refused)
        else:  # its batch script may have begun on the first node, until Slurm requeued it
            assert record.manifest.outcome in ("ended", "requeued")
        shown = page(lab, f"{job_id}.0")
        assert shown.splitlines()[2].startswith(refused), shown
        assert f"\n  gate: no job may start here: replace: XID 79 ({faulty})\n" in shown
        lab.run(["rm", fault], host=faulty, user="root")
        lab.run(["scontrol", "update", f"nodename={faulty}", "state=resume"], user="root")
        lab.run(["scontrol", "release", job_id], user="root")
        second = record_of(lab, job_id, 1, within_s=150)
        assert (second.manifest.outcome, second.output()) == ("completed", b"begun\n")
        assert listed(lab, job_id) == "requeued"
        assert refused in page(lab, f"{job_id}.0").splitlines()[2]
