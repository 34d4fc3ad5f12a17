# SPDX-License-Identifier: Apache-2.0
"""Every kind of job leaves its record: batch, salloc, bare srun, array, het, requeued, and a guarded step's resumes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from guarded import new_job, until
from lab.cluster import Cluster
from recorded import Record, await_state, find, record_of, recording_lab, submit

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    # A requeued job starts again at once: Slurm waits for the credential's lifetime.
    settings = {
        "AuthInfo": "cred_expire=5",
        "SchedulerParameters": "bf_interval=1,sched_interval=1,sched_min_interval=1",
    }
    with recording_lab(4, gpus=2, slurm_conf=settings) as cluster:
        yield cluster


def run_job(lab: Cluster, body: str, *options: str) -> Record:
    """Runs a batch job to the end of its record."""
    return record_of(lab, submit(lab, body, *options))


def test_a_step_on_another_node_alone_makes_no_second_record(lab: Cluster) -> None:
    record = run_job(lab, "srun -N1 -n1 -r1 hostname", "-N2", "--exclusive")
    manifest = record.manifest
    other = manifest.nodes[1]
    assert record.output().decode().split() == [other]
    assert (manifest.lead_node, [step.nodes for step in manifest.steps[1:]]) == (manifest.nodes[0], [])
    assert [step.nodes for step in record.nodes[other].steps] == [other]
    assert [path.name for path in record.path.parent.glob(f"{manifest.job_id}.*")] == [f"{manifest.job_id}.0"]


def test_a_batch_job_with_steps_on_two_nodes(lab: Cluster) -> None:
    began_s = time.time()
    steps = "srun --overlap -N2 -n4 hostname; srun --overlap -N1 -n1 -w $SLURMD_NODENAME sh -c 'exit 3'"
    body = f"echo out; echo err >&2; {steps}; exit 5"
    options = "-N2 --exclusive --gres=gpu:2 --job-name=train --comment=a_comment --output=%x-%j.out --error=%j.err"
    record = run_job(lab, body, *options.split())
    manifest = record.manifest
    owner = lab.home().stat()
    assert (manifest.cluster, manifest.kind, manifest.state, manifest.attempt) == ("lab", "batch", "ended", 0)
    assert (manifest.name, manifest.user, manifest.uid, manifest.gid) == ("train", "alice", owner.st_uid, owner.st_gid)
    assert (manifest.comment, manifest.partition, manifest.account) == ("a_comment", "main", "research")
    assert (len(manifest.nodes), manifest.lead_node, manifest.work_dir) == (2, manifest.nodes[0], str(lab.home()))
    assert (manifest.exit_status, manifest.exit_signal, manifest.printed_id) == (5, 0, manifest.job_id)
    assert manifest.start_s is not None
    assert manifest.end_s is not None
    assert began_s - 0.1 <= manifest.start_s < manifest.end_s <= time.time()
    assert record.script.decode() == f"#!/bin/bash\n{body}\n"
    assert record.output().splitlines()[0] == b"out"
    assert sorted(record.output().decode().split()[1:]) == sorted(2 * manifest.nodes)
    assert record.output("stderr").startswith(b"err\n")
    environment = record.environment
    assert environment["HOME"] == str(lab.home())
    assert environment["SLURM_JOB_ID"] == manifest.job_id
    assert [step.step_id for step in manifest.steps] == ["batch", "0", "1"]
    whole, part = record.step("0"), record.step("1")
    assert (whole.argv, whole.node_count, whole.task_count) == (["hostname"], 2, 4)
    assert part.argv == ["sh", "-c", "exit 3"]
    assert [(task.rank, task.status, task.signal) for task in part.exits] == [(0, 3, 0)]
    assert [task.status for task in record.step("batch").exits] == [5]
    ranks = [
        task.rank for node in record.nodes.values() for step in node.steps if step.step_id == "0" for task in step.exits
    ]
    assert sorted(ranks) == [0, 1, 2, 3]
    assert {node.state for node in record.nodes.values()} == {"ended"}
    assert {node.gpus for node in record.nodes.values()} == {"0,1"}
    assert record.lacks == []


def test_only_the_owner_can_read_a_record(lab: Cluster) -> None:
    record = run_job(lab, "echo secret; srun true")
    files = [path for path in record.path.rglob("*") if path.is_file()]
    assert {"manifest.json", "script", "env.json", "stdout.zst"} <= {path.name for path in files}
    for path in files:
        status = path.stat()
        assert (status.st_uid, status.st_mode & 0o7777) == (lab.home().stat().st_uid, 0o400), path
        assert lab.run(["cat", str(path)], check=False).status == 0
        assert lab.run(["cat", str(path)], user="bob", check=False).status == 1
    for directory in (record.path, record.path / "nodes", *record.path.parents[:5]):
        assert directory.stat().st_uid == 0
        assert lab.run(["ls", str(directory)], check=False).status == 2, directory
        assert lab.run(["touch", f"{directory}/mine"], check=False).status == 1, directory


def test_salloc(lab: Cluster) -> None:
    # Without --overlap, Slurm 22.05 sometimes lets the second step wait for ever for what the first has given back.
    steps = "srun --overlap -N2 hostname; srun --overlap -N1 -n1 false"
    done = lab.run(["salloc", "-N2", "-J", "by hand", "bash", "-c", steps], check=False)
    found = re.search(r"Granted job allocation (\d+)", done.stderr)
    assert found
    record = record_of(lab, found[1])
    assert (record.manifest.kind, record.manifest.state, len(record.manifest.nodes)) == ("interactive", "ended", 2)
    assert [(step.step_id, step.argv) for step in record.manifest.steps] == [("0", ["hostname"]), ("1", ["false"])]
    assert [task.status for task in record.step("1").exits] == [1]
    assert (record.manifest.user, record.manifest.uid) == ("alice", lab.home().stat().st_uid)
    assert not (record.path / "script").exists()


def test_a_bare_srun(lab: Cluster) -> None:
    done = lab.run(["srun", "-N2", "sh", "-c", "echo $SLURM_JOB_ID"])
    record = record_of(lab, done.stdout.split()[0])
    assert (record.manifest.kind, len(record.manifest.nodes)) == ("interactive", 2)
    assert record.step("0").argv == ["sh", "-c", "echo $SLURM_JOB_ID"]
    assert {node.state for node in record.nodes.values()} == {"ended"}


def test_each_task_of_an_array(lab: Cluster) -> None:
    array = submit(lab, "echo task $SLURM_ARRAY_TASK_ID; exit $SLURM_ARRAY_TASK_ID", "--array=0-3%2", "-o", "%A_%a")
    raw_ids = until("all tasks", lambda: _raw_ids(lab, array, 4), 60, 0.3)
    for task, raw_id in raw_ids.items():
        record = record_of(lab, raw_id)
        assert record.manifest.printed_id == f"{array}_{task}"
        assert record.output() == f"task {task}\n".encode()
        assert (record.manifest.exit_status, record.manifest.job_id) == (int(task), raw_id)
    scripts = {(record_of(lab, raw_id).path / "script").stat().st_ino for raw_id in raw_ids.values()}
    assert len(scripts) == 1


def _raw_ids(lab: Cluster, array: str, count: int) -> dict[str, str] | None:
    """Task to raw job id, once all tasks have one of their own."""
    shown = lab.run(["squeue", "-h", "-t", "all", "-r", "-j", array, "-o", "%K %A"], check=False).stdout
    found = dict(line.split() for line in shown.splitlines())
    return found if len(set(found.values())) == count else None


def test_both_parts_of_a_het_job(lab: Cluster) -> None:
    lab.write("het.sh", "#!/bin/bash\nsrun --het-group=0,1 hostname\n", mode=0o755)
    first = lab.run(["sbatch", "--parsable", "-N1", "-o", "het.out", ":", "-N2", "het.sh"]).stdout.strip()
    second = str(int(first) + 1)
    lead, other = record_of(lab, first), record_of(lab, second)
    assert (lead.manifest.printed_id, other.manifest.printed_id) == (f"{first}+0", f"{first}+1")
    assert (len(lead.manifest.nodes), len(other.manifest.nodes)) == (1, 2)
    assert lead.manifest.kind == "batch"
    assert len(lead.output().split()) == 3
    assert lead.step("0").argv == other.step("0").argv == ["hostname"]


def test_a_requeued_job_keeps_its_attempts_apart(lab: Cluster) -> None:
    body = (
        "echo attempt ${SLURM_RESTART_COUNT:-0}; touch started.$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}\n"
        '[ -n "$SLURM_RESTART_COUNT" ] || sleep 300'
    )
    job_id = submit(lab, body, "--requeue", "-o", "requeued.%j")
    until("it runs", (lab.home() / f"started.{job_id}.0").exists, 30)
    lab.run(["scontrol", "requeue", job_id])
    second = record_of(lab, job_id, 1, within_s=150)
    first = record_of(lab, job_id, 0)
    assert (first.manifest.attempt, second.manifest.attempt) == (0, 1)
    assert first.output().startswith(b"attempt 0\n")
    assert b"DUE TO JOB REQUEUE" in first.output()
    assert second.output() == b"attempt 1\n"
    assert first.manifest.end_s is not None
    assert second.manifest.start_s is not None
    assert first.manifest.end_s <= second.manifest.start_s
    assert second.manifest.exit_status == 0


def test_the_resumes_of_a_guarded_step(lab: Cluster) -> None:
    job = new_job(lab)
    job.submit(f"srun --auto-resume=1 -N2 -n2 --gres=gpu:2 {job.ring(60)}", "-N3", "--exclusive", "--gres=gpu:2")
    job.await_steps(5)
    faulty = lab.run(["scontrol", "show", "hostnames", job.nodes()]).stdout.split()[1]
    fault = Path("/run/stepguard/fault")
    lab.run(["sh", "-c", f"echo 'replace: XID 79' > {fault}"], host=faulty, user="root")
    try:
        job.await_steps(3, attempt=1, within_s=60)
        assert job.await_end() == "COMPLETED"
    finally:
        lab.run(["rm", "-f", str(fault)], host=faulty, user="root")
    record = record_of(lab, job.id)
    assert record.manifest.resumes == 1
    events = [event["event"] for event in record.lines("resumes.jsonl")]
    assert events.count("start") == 2
    attempts = [step.attempt for step in record.manifest.steps if "ring.py" in " ".join(step.argv)]
    assert attempts == [0, 1]
    assert b"[Auto Resume]" in record.output()


def test_the_journal_of_a_guarded_step_of_salloc(lab: Cluster) -> None:
    shell = "echo $SLURM_JOB_ID; srun --auto-resume=1 true"
    job_id = lab.run(["salloc", "-Q", "--exclusive", "-N2", "sh", "-c", shell]).stdout.strip()
    record = record_of(lab, job_id)
    assert [event["event"] for event in record.lines("resumes.jsonl")] == ["start", "end"]


NAMES = [
    "two words",
    "quo'te\"s",
    "ünïcödé",
    "-dash",
    "..",
    "../../../../tmp/evil",
    "new\nline",
    "\x1b[2J\x1b]0;evil\a",
    "$(touch evil)",
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_any_job_name(lab: Cluster, name: str) -> None:
    record = run_job(lab, "echo $SLURM_JOB_ID", f"--job-name={name}", "-o", "named.%j")
    assert record.manifest.name == name
    assert record.path.name == f"{record.manifest.job_id}.0"


def test_a_job_name_and_output_of_bytes_that_are_no_text(lab: Cluster) -> None:
    name = os.fsdecode(b"\xff\xfe \x80name")
    record = run_job(
        lab,
        r"printf '\xff\x00\xfe\n'; srun printf '\x80%s\n' \"$SLURM_JOB_NAME\"",
        f"--job-name={name}",
        "-o",
        "bytes.%j",
    )
    assert os.fsencode(record.manifest.name) == os.fsencode(name)
    assert record.output().startswith(b"\xff\x00\xfe\n\x80")


@pytest.mark.parametrize(
    "name",
    ["a b.out", "-x.out", "'q\".out", "ü.out", os.fsdecode(b"\xff.out"), "line\nline.out", "$(id).out", "50%%.out"],
)
def test_any_output_file(lab: Cluster, name: str) -> None:
    record = run_job(lab, "echo mine", f"--output={lab.home()}/{name}")
    assert record.output() == b"mine\n"
    expected = f"{lab.home()}/{name}".replace("%%", "%")
    assert os.fsencode(record.manifest.files["stdout"].source) == os.fsencode(expected)


def test_a_long_name_comment_and_environment(lab: Cluster) -> None:
    # Slurm takes no more than 1 KiB of a name or a comment; what a hook is sent may be 512 KiB all together.
    name, comment, value = "n" * 1023, "c" * 1023, "e" * 100_000
    record = run_job(lab, "true", f"--comment={comment}", f"-J{name}", f"--export=ALL,BIG={value}", "-o", "/dev/null")
    assert (record.manifest.name, record.manifest.comment) == (name, comment)
    assert record.environment["BIG"] == value
    assert record.manifest.files["stdout"].what == "device"


def test_secrets_are_not_in_the_record(lab: Cluster) -> None:
    token = "hf_" + "A1b2C3d4E5" * 3 + "FgHi"
    header = "Authorization: Bearer abcdefghijklmnop1234567890"
    body = f"set -x\nexport HF_TOKEN={token}\necho '{header}' >/dev/null"
    record = run_job(lab, body, f"--export=ALL,MY_PASSWORD={token}x", "-o", "secret.%j")
    for path in record.path.rglob("*"):
        if path.is_file() and path.suffix != ".zst":
            assert token.encode() not in path.read_bytes(), path
    assert token.encode() not in record.output()
    assert b"[redacted:" in record.script
    assert record.environment["MY_PASSWORD"].startswith("[redacted:")


def test_secrets_that_only_the_script_tells_and_in_other_forms_are_not_in_the_record(lab: Cluster) -> None:
    quoted = "it's a se\"cret$9"
    body = "\n".join(
        [
            "DB_PASSWORD='hunter2plain!'; set -x; echo $DB_PASSWORD",
            'echo "$X_PASSWORD"; printf %s "$X_PASSWORD" | base64',
            """python3 -c 'import json, os; x = os.environ["X_PASSWORD"]; print([x], json.dumps(x))'""",
            "sshpassword; srun true --x=hunter2plain!",
        ]
    )
    record = run_job(lab, body, f"--export=ALL,X_PASSWORD={quoted}", "-o", "out-hunter2plain!-ghp_" + "aB3d" * 10)
    texts = [path.read_bytes() for path in record.path.rglob("*") if path.is_file() and path.suffix != ".zst"]
    for text in [*texts, record.output()]:
        for part in (b"hunter2", b"ghp_", b"cret$9", b"aXQncyBhI"):
            assert part not in text
    assert record.manifest.files["stdout"].source.startswith(f"{lab.home()}/out-[redacted:")
    assert b"sshpassword: command not found" in record.output()


def test_a_record_can_be_found_while_the_job_runs(lab: Cluster) -> None:
    job_id = submit(lab, "echo begun; sleep 300", "-o", "running.%j")
    record = until("its record", lambda: (r := find(lab, job_id)) and (r.path / "manifest.json").exists() and r, 30)
    assert record.manifest.state == "running"
    assert b"sleep 300" in record.script
    lab.run(["scancel", job_id])
    await_state(lab, job_id, "CANCELLED")
    ended = record_of(lab, job_id)
    assert (ended.manifest.state, ended.output()[:6]) == ("ended", b"begun\n")
    assert ended.step("batch").exits[0].signal == 15 or ended.step("batch").exits[0].status == 143


def test_no_node_was_drained(lab: Cluster) -> None:
    lab.wait_idle()
    assert "error: Prolog" not in "".join(lab.node_log(node) for node in lab.nodes)
