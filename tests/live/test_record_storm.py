# SPDX-License-Identifier: Apache-2.0
"""200 short jobs at once while agents are killed and started again at random: no record is lost, nobody notices."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from datetime import datetime

import pytest

from guarded import until
from lab.cluster import Cluster
from recorded import Record, await_records, recording_lab, submit

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

DEADLINE_S = 0.5
# slurmd's own floor of a hook, and a machine that has 200 jobs to start and may have others to run.
_SLACK_S, _LONGEST_S = 1.0, 10.0
_SINGLE, _ARRAY, _TWO_NODES = 120, 40, 40


def test_200_jobs_while_agents_are_killed_and_started_again() -> None:
    seed = time.time_ns()
    print(f"seed {seed}")
    with recording_lab(
        6, slurm_conf={"SlurmdDebug": "debug", "SchedulerParameters": "sched_min_interval=100000"}
    ) as lab:
        lab.run(["scontrol", "update", "PartitionName=main", "State=DOWN"], user="root")
        expected, array = _submit_all(lab)
        lab.run(["scontrol", "update", "PartitionName=main", "State=UP"], user="root")
        _disturb(lab, random.Random(seed), lambda: not _unfinished(lab))
        expected.update(_tasks(lab, array))
        records = await_records(lab, expected, 120)
        assert len(records) == 200
        assert {job_id: record.lacks for job_id, record in records.items() if record.lacks} == {}
        for job_id, word in expected.items():
            _assert_complete(records[job_id], word)
        until("empty spools", lambda: not any(_left_in_spool(lab, node) for node in lab.nodes), 30)
        assert set(lab.node_states().values()) == {"idle"}
        assert "Prolog" not in lab.controller_log()
        taken_s = sorted(_hook_times_s(lab))
        assert taken_s[len(taken_s) * 9 // 10] < DEADLINE_S + _SLACK_S
        assert taken_s[-1] < _LONGEST_S
        done = lab.run(["/opt/stepguard/bin/stepguard", "archive", "verify"], host="n1", user="root")
        assert done.stdout == "200 records, 0 faults\n"


def _submit_all(lab: Cluster) -> tuple[dict[str, str], str]:
    """The jobs by raw id, and the word that each prints; and the array."""
    expected: dict[str, str] = {}
    for number in range(_SINGLE):
        word = f"single-{number}"
        expected[submit(lab, f"echo {word}; exit {number % 3}", "-n1")] = word
    array = submit(lab, "echo task-$SLURM_ARRAY_TASK_ID", f"--array=0-{_ARRAY - 1}", "-n1")
    for number in range(_TWO_NODES):
        word = f"double-{number}"
        expected[submit(lab, f"echo {word}; srun -N2 -n2 true", "-N2", "-n2")] = word
    return expected, array


def _tasks(lab: Cluster, array: str) -> dict[str, str]:
    """The array's tasks by raw id, and the word that each prints."""
    shown = lab.run(["squeue", "-h", "-t", "all", "-r", "-j", array, "-o", "%A task-%K"]).stdout
    return dict(line.split() for line in shown.splitlines())


def _unfinished(lab: Cluster) -> list[str]:
    return lab.run(["squeue", "-h", "-o", "%A"], user="root").stdout.split()


def _disturb(lab: Cluster, chance: random.Random, over: Callable[[], bool]) -> None:
    """Kills agents and starts them again until it is over; then all run."""
    down: set[str] = set()
    kills = 0
    until_s = time.monotonic() + 300
    while not over() and time.monotonic() < until_s:
        node = chance.choice(lab.nodes)
        if node in down:
            lab.agents.launch(node)
            down.discard(node)
        elif lab.agents.is_running(node):
            lab.agents.kill(node)
            down.add(node)
            kills += 1
        time.sleep(chance.uniform(0, 0.2))
    for node in down:
        lab.agents.start(node)
    assert kills >= 10


def _assert_complete(record: Record, word: str) -> None:
    manifest = record.manifest
    what = f"{record.path}: {record.lacks}"
    assert manifest.state == "ended", what
    assert record.output().decode().split()[:1] == [word], what
    assert f"echo {word.split('-')[0]}-".encode() in record.script, what
    assert record.environment["HOME"] == manifest.work_dir, what
    assert [step.step_id for step in manifest.steps] == ["batch", *(["0"] if word.startswith("double") else [])], what
    wanted = int(word.split("-")[1]) % 3 if word.startswith("single") else 0
    assert (manifest.exit_status, manifest.exit_signal) == (wanted, 0), what
    assert [task.status for task in record.step("batch").exits] == [wanted], what
    assert len(record.nodes) == (2 if word.startswith("double") else 1), what
    assert {node.state for node in record.nodes.values()} == {"ended"}, what


def _left_in_spool(lab: Cluster, node: str) -> list[str]:
    spool = lab.agents.spool(node)
    return [path.name for part in ("jobs", "notes") for path in (spool / part).iterdir()]


def _hook_times_s(lab: Cluster) -> list[float]:
    """What each epilog took, by the nodes' logs."""
    taken = []
    for node in lab.nodes:
        began: dict[str, datetime] = {}
        for line in lab.node_log(node).splitlines():
            if match := re.search(r"^\[([^]]+)\] debug:  Finished wait for job (\d+)'s prolog", line):
                began[match[2]] = datetime.fromisoformat(match[1])
            elif match := re.search(r"^\[([^]]+)\] debug:  completed epilog for jobid (\d+)$", line):
                taken.append((datetime.fromisoformat(match[1]) - began[match[2]]).total_seconds())
    assert len(taken) >= 200
    return taken
