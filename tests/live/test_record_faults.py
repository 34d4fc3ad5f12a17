# SPDX-License-Identifier: Apache-2.0
"""Archive and spool hang, are away or full, daemons and nodes go down in the middle of a job: the jobs run on, and
what was acknowledged is in the records in the end."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from guarded import await_task, until
from lab import LabError
from lab.agents import SPOOL
from lab.cluster import Cluster
from lab.hung import hung
from recorded import await_records, await_state, find, record_of, recording_lab, submit
from stepguard.agent.slurmstepds import jobs_with_one

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

QUICK = {
    "SchedulerParameters": "bf_interval=1,sched_interval=1,sched_min_interval=1",
    "ReturnToService": "2",
    "AuthInfo": "cred_expire=5",
}

PYTHON = "/opt/stepguard/venv/bin/python"
# An agent to which a moment is a long silence.
IMPATIENT = """
from stepguard.agent import attempts, slurmstepds
attempts.NO_EPILOG_S, slurmstepds._AGAIN_S = 3.0, 0.5
from stepguard.__main__ import main
main()
"""


@pytest.fixture
def lab() -> Iterator[Cluster]:
    with recording_lab(2, slurm_conf=QUICK) as cluster:
        yield cluster
        assert not [state for state in cluster.node_states().values() if "drain" in state]


def run_jobs(lab: Cluster, count: int, *options: str) -> list[str]:
    """Runs jobs on n1, all at once, to their ends in Slurm."""
    job_ids = [submit(lab, f"echo word-{number}", "-w", "n1", *options) for number in range(count)]
    for job_id in job_ids:
        await_state(lab, job_id, "COMPLETED", within_s=40)
    return job_ids


def sleeps(lab: Cluster, node: str, count: int) -> bool:
    """Whether so many tasks sleep there."""
    return sum(command.endswith("/sleep 300 ") for command in lab.processes(node).values()) == count


def assert_recorded(lab: Cluster, job_ids: list[str], within_s: float = 60) -> None:
    records = await_records(lab, job_ids, within_s)
    for number, job_id in enumerate(job_ids):
        assert records[job_id].output() == f"word-{number}\n".encode()
        assert records[job_id].lacks == []


def test_the_archive_hangs_and_the_agent_is_killed_meanwhile(lab: Cluster) -> None:
    with hung(lab, "n1", lab.archive):
        before = run_jobs(lab, 5)
        lab.agents.kill("n1")
        lab.agents.start("n1")
        after = run_jobs(lab, 5)
        began_s = time.monotonic()
        lab.run(["srun", "-w", "n1", "true"])
        assert time.monotonic() - began_s < 10
        assert all(find(lab, job_id) is None for job_id in before + after)
        elsewhere = submit(lab, "echo there", "-w", "n2")
        assert record_of(lab, elsewhere).output() == b"there\n"
    assert_recorded(lab, before)
    assert_recorded(lab, after)


def test_the_archive_is_away_and_comes_back(lab: Cluster) -> None:
    away = lab.archive.rename(lab.archive.with_name("away"))
    job_ids = run_jobs(lab, 3)
    until("the archiver says so", lambda: "takes nothing" in lab.agents.log("n1"), 20)
    assert not lab.archive.exists(), "an archive that is not mounted must not be made"
    away.rename(lab.archive)
    assert_recorded(lab, job_ids)


def test_the_archive_is_full_and_gets_room(lab: Cluster) -> None:
    lab.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=711", "full", str(lab.archive)], host="n1", user="root")
    lab.run(["sh", "-c", f"head -c 1M /dev/zero > {lab.archive}/rest || true"], host="n1", user="root")
    job_ids = run_jobs(lab, 3)
    until("the archiver says so", lambda: "takes nothing" in lab.agents.log("n1"), 20)
    lab.run(["umount", "--lazy", str(lab.archive)], host="n1", user="root")
    assert_recorded(lab, job_ids)


def test_a_full_spool_gives_up_output_first_and_never_the_manifest() -> None:
    with recording_lab(1, "[agent]\nspool_max_mib = 16", slurm_conf=QUICK) as lab:
        away = lab.archive.rename(lab.archive.with_name("away"))
        body = "echo begin; yes 0123456789 | head -c 3000000"
        home = str(lab.home())
        job_ids = [submit(lab, body, "-J", f"job-{number}") for number in range(24)]
        for job_id in job_ids:
            await_state(lab, job_id, "COMPLETED", within_s=60)
        until("it is said", lambda: "full" in lab.agents.log("n1"), 30)
        away.rename(lab.archive)
        found = await_records(lab, job_ids, 90)
        for number, job_id in enumerate(job_ids):
            manifest = found[job_id].manifest
            assert (manifest.state, manifest.exit_status, manifest.name) == ("ended", 0, f"job-{number}")
            assert (manifest.user, manifest.work_dir, manifest.nodes) == ("alice", home, ["n1"])
            assert (found[job_id].path / "env.json").exists(), "output goes first"
        records = list(found.values())
        with_output = [record for record in records if (record.path / "stdout.zst").exists()]
        without = [record for record in records if record not in with_output]
        assert 5 <= len(with_output) <= 14
        assert all(record.output().startswith(b"begin\n") for record in with_output)
        assert all("full" in " ".join(record.lacks) for record in without)


def test_a_full_disk_under_the_spool_stops_no_job_and_costs_no_manifest(lab: Cluster) -> None:
    """Only the archiver can free it, and it cannot write there either."""
    lab.agents.stop("n1")
    lab.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "full", SPOOL], host="n1", user="root")
    lab.agents.start("n1")
    away = lab.archive.rename(lab.archive.with_name("away"))
    waits = f"until test -s {SPOOL}/reserve; do sleep 0.1; done"
    lab.run(["sh", "-c", f"{waits}; head -c 4M /dev/zero > {SPOOL}/rest || true"], host="n1", user="root")
    large = {"LARGE": "x" * 100_000}  # more than the reserve gives up at once
    array = submit(lab, "yes 0123456789 | head -c 1000000", "-w", "n1", "-J", "full", "--array=1-3", env=large)
    job_ids = [str(int(array) + number) for number in range(3)]  # Slurm numbers the tasks so; the last has the array's
    for job_id in job_ids:
        await_state(lab, job_id, "COMPLETED", within_s=40)
    until("it is said", lambda: "is full: only small messages are kept" in lab.agents.log("n1"), 20)
    lab.agents.kill("n1")
    lab.agents.start("n1")
    away.rename(lab.archive)
    found = await_records(lab, job_ids, 60)
    for job_id in job_ids:
        manifest = found[job_id].manifest
        assert (manifest.state, manifest.exit_status, manifest.lead_node) == ("ended", 0, "n1")
        assert (manifest.name, manifest.array_job_id, manifest.user) == ("full", array, "alice")
        assert "environment: the spool had no room for it" in found[job_id].lacks
        assert f"{lab.home()}/slurm-{array}_{manifest.array_task_id}.out" == manifest.files["stdout"].source
        assert not {path.name for path in found[job_id].path.iterdir()} & {"script", "env.json", "stdout.zst"}
    assert "Traceback" not in lab.agents.log("n1")
    lab.run(["rm", f"{SPOOL}/rest"], host="n1", user="root")
    assert_recorded(lab, run_jobs(lab, 2))


def test_slurm_is_restarted_in_the_middle_of_a_job(lab: Cluster) -> None:
    job_id = submit(lab, "echo begun; srun -N2 sleep 12; echo over", "-N2", "-o", "restarted.out")
    await_task(lab, "n2", "sleep 12")
    lab.restart_controller()
    for node in lab.nodes:
        lab.restart_slurmd(node)
    lab.agents.stop("n2")
    lab.agents.start("n2")
    record = record_of(lab, job_id, within_s=60)
    assert record.output() == b"begun\nover\n"
    assert (record.manifest.state, record.manifest.exit_status) == ("ended", 0)
    assert [(step.step_id, step.state) for step in record.manifest.steps] == [("batch", "ended"), ("0", "ended")]
    assert record.lacks == []


def test_a_slurmstepd_is_known_by_its_title_until_it_is_killed(lab: Cluster) -> None:
    """An attempt that is silent for long, and whose end nothing tells, is over once none of its job lives."""
    body = "srun --overlap sleep 300"
    array = submit(lab, body, "--array=1-2", "-w", "n1", "--no-requeue")
    lab.write("het.sh", "#!/bin/bash\nsrun --het-group=0,1 sleep 300\n", mode=0o755)
    het = lab.run(["sbatch", "--parsable", "-N1", "-w", "n1", ":", "-N1", "-w", "n2", "het.sh"]).stdout.strip()
    spooled: dict[str, frozenset[int]] = {}
    for node, count in (("n1", 3), ("n2", 1)):
        until(f"{count} tasks run on {node}", partial(sleeps, lab, node, count), 60)
        names = (path.name for path in lab.agents.spool(node).glob("jobs/*"))
        spooled[node] = frozenset(int(name.partition(".")[0]) for name in names)
        assert jobs_with_one(lab.root(node) / "proc") == spooled[node]
    assert {int(array), int(het)} < spooled["n1"]
    assert spooled["n2"] == {int(het) + 1}
    for pid, command in lab.processes("n1").items():
        if command.startswith(f"slurmstepd: [{het}."):
            os.kill(pid, signal.SIGKILL)
    until("it is gone", lambda: jobs_with_one(lab.root("n1") / "proc") == spooled["n1"] - {int(het)}, 20)


def test_a_late_note_of_a_finished_job_leaves_its_record_as_it_is(lab: Cluster) -> None:
    """The agent that finds it was started after the job's end, and its memory of that is gone."""
    job_id = submit(lab, "echo begun; srun --overlap true; sleep 3", "-w", "n1")
    spool = lab.agents.spool("n1")
    started = until("its step", lambda: list(spool.glob(f"jobs/{job_id}.0/*.step_start")), 30, 0.02)
    late = [path.read_bytes() for path in [*started, *spool.glob(f"jobs/{job_id}.0/*.batch")]]
    record = record_of(lab, job_id)
    before = {path: path.read_bytes() for path in record.path.rglob("*") if path.is_file()}
    assert record.manifest.outcome == "completed"
    lab.agents.stop("n1")
    for number, message in enumerate(late):
        (spool / f"notes/{number}.note").write_bytes(message)
    agent = lab.start([PYTHON, "-c", IMPATIENT, "agent"], host="n1", user="root")
    until("they are archived", lambda: not [*spool.glob("notes/*.note"), *spool.glob("jobs/*")], 60)
    agent.kill()
    assert {path: path.read_bytes() for path in record.path.rglob("*") if path.is_file()} == before
    assert "Traceback" not in agent.stderr


def test_a_node_reboots_in_the_middle_of_a_job(lab: Cluster) -> None:
    job_id = submit(lab, "echo begun; srun -N2 sleep 300", "-N2", "--no-requeue", "-o", "rebooted.out")
    await_task(lab, "n2", "sleep 300")
    began_s = time.time()
    lab.power_off("n2")
    lab.power_on("n2")
    record = record_of(lab, job_id, within_s=120)
    lost = record.nodes["n2"]
    assert lost.state == "lost"
    assert any("started anew" in missing.why for missing in lost.missing)
    assert lost.start_s is not None
    assert lost.start_s < began_s
    assert record.nodes["n1"].state == "ended"
    assert record.output().startswith(b"begun\n")
    lab.wait_idle()
    again = [*run_jobs(lab, 1), submit(lab, "echo word-1", "-w", "n2")]
    assert_recorded(lab, again)


def test_the_lead_node_dies_and_boots_again_and_the_job_is_requeued() -> None:
    with recording_lab(1, slurm_conf={**QUICK, "SlurmdTimeout": "10"}) as lab:
        body = 'echo attempt ${SLURM_RESTART_COUNT:-0}; [ -n "$SLURM_RESTART_COUNT" ] || sleep 300'
        job_id = submit(lab, body, "--requeue", "-o", "requeued.out", "--open-mode=append")
        until("it runs", (lab.home() / "requeued.out").exists, 30)
        lab.power_off("n1")
        await_state(lab, job_id, "PENDING", within_s=120)
        lab.power_on("n1")
        first, second = record_of(lab, job_id, 0, within_s=60), record_of(lab, job_id, 1, within_s=120)
        assert first.manifest.state == "lost"
        assert (second.manifest.state, second.manifest.exit_status) == ("ended", 0)
        assert second.output().endswith(b"attempt 1\n")
        assert first.manifest.start_s is not None
        assert second.manifest.start_s is not None
        assert first.manifest.start_s < second.manifest.start_s


def test_a_second_agent_refuses_to_start(lab: Cluster) -> None:
    first = lab.agents.running("n1")
    second = lab.agents.launch("n1")
    assert second.wait(20) != 0
    assert re.search(r"^stepguard: .+", second.stderr, re.MULTILINE), second.stderr
    assert first.status is None
    job_ids = run_jobs(lab, 1)
    assert_recorded(lab, job_ids)


def test_without_an_agent_jobs_run_and_their_records_come_later(lab: Cluster) -> None:
    for node in lab.nodes:
        lab.agents.kill(node)
    job_ids = run_jobs(lab, 3)
    two_nodes = submit(lab, "srun -N2 hostname", "-N2")
    await_state(lab, two_nodes, "COMPLETED", within_s=40)
    with pytest.raises(LabError):
        lab.agents.running("n1")
    notes = lab.agents.spool("n1") / "notes"
    assert len(list(notes.glob("*.note"))) >= 4 * 5
    for node in lab.nodes:
        lab.agents.start(node)
    assert_recorded(lab, job_ids)
    record = record_of(lab, two_nodes)
    assert (len(record.nodes), record.lacks) == (2, [])
    until("no notes", lambda: not list(notes.iterdir()), 20)


def test_output_of_every_kind_is_recorded_for_what_it_is(lab: Cluster) -> None:
    """As the job's end finds it: the batch script does it to its own output."""
    kinds = {
        "rm OUT": "absent",
        "rm OUT; mkfifo OUT": "fifo",
        "rm OUT; mkdir OUT": "directory",
        "rm OUT; ln -s /etc/passwd OUT": "link",
        "chmod 0 OUT": "unreadable",
        "truncate -s 3G OUT": "regular",
        "echo mine; ln OUT OUT.other": "regular",
    }
    found = {}
    for number, words in enumerate(kinds):
        out = Path(lab.home()) / f"kind-{number}.out"
        job_id = submit(lab, words.replace("OUT", str(out)), "-o", str(out), "-w", "n1")
        record = record_of(lab, job_id)
        found[words] = record.manifest.files["stdout"].what
        if "3G" in words:
            assert record.manifest.files["stdout"].size_bytes == 3 << 30
            assert record.manifest.files["stdout"].stored_bytes < 1 << 20
        if "ln -s" in words:
            assert not (record.path / "stdout.zst").exists()
    assert found == kinds
