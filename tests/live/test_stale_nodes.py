# SPDX-License-Identifier: Apache-2.0
"""A listed node that has left a running job: who shrinks their own job, and who goes on after a resume, is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guarded import new_job, until
from lab.cluster import Cluster
from lab.roots import PREFIX
from recorded import Record, recording_lab, submit
from stepguard.resume.resized import content

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

SHOW = "'echo $SLURM_PROCID $SLURM_JOB_NODELIST $SLURM_NODELIST $SLURM_JOB_NUM_NODES'"
NODES = ("n1", "n2", "n4")
STEP = f"srun --overlap -N2 -n2 sh -c {SHOW}"
SHRINK = "mkdir -p shrunk-$SLURM_JOB_ID && cd shrunk-$SLURM_JOB_ID && scontrol update JobId=$SLURM_JOB_ID NodeList={}"


@pytest.fixture
def lab() -> Iterator[Cluster]:
    """A cluster for each test: a job that was shrunk may be COMPLETING for two minutes (22.05.8)."""
    with recording_lab(4) as cluster:
        yield cluster


@pytest.fixture
def repairing(lab: Cluster) -> Iterator[None]:
    """The administrator has the lists repaired."""
    paths = [lab.root(node) / "etc/stepguard/stepguard.toml" for node in lab.nodes]
    before = [path.read_text() for path in paths]
    for path, text in zip(paths, before, strict=True):
        path.write_text(f"{text}\n[agent]\nrepair_nodelist = true\n")
    yield
    for path, text in zip(paths, before, strict=True):
        path.write_text(text)


def line_of(job_id: str, left: str = "n3", nodes: str = "n[1-2,4]") -> str:
    return (
        f"stepguard: SLURM_JOB_NODELIST is stale: {left} has left job {job_id} (its nodes are {nodes}); "
        "use SLURM_STEP_NODELIST or: stepguard nodes"
    )


def run_job(lab: Cluster, *lines: str) -> tuple[str, list[str], list[dict[str, Any]]]:
    """Runs a batch job on n1 to n4: its id, what it wrote, and the findings of its record."""
    job_id = submit(lab, "\n".join(lines), "-w", "n[1-4]", "-N4", "--exclusive", "-o", "stale-%j")
    findings = findings_of(lab, job_id)
    return job_id, (lab.home() / f"stale-{job_id}").read_text().splitlines(), findings


def findings_of(lab: Cluster, job_id: str) -> list[dict[str, Any]]:
    """The findings that nodes made."""
    return list(record_shown(lab, job_id)["findings"])


def record_shown(lab: Cluster, job_id: str) -> dict[str, Any]:
    """The record as the owner reads it, once the batch host has told the ends of the job and of all steps."""

    def read() -> Any:
        done = lab.run([f"{PREFIX}/bin/stepguard", "job", job_id, "--json"], check=False)
        for record in json.loads(done.stdout)["records"] if done.status == 0 else []:
            # The node that left may be the first to write, and have a record of its own.
            steps = {step["step_id"]: step for step in record["manifest"]["steps"]}
            ended = "batch" in steps and record["manifest"]["state"] == "ended"
            if ended and all(step["exits"] for step in steps.values()):
                return record
        return None

    return dict(until(f"the record of job {job_id}", read, 180, 0.2))


def ours(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("stepguard: ")]


def test_a_shrunk_job_is_told_until_its_file_is_sourced(lab: Cluster) -> None:
    source = ". ./slurm_job_${SLURM_JOB_ID}_resize.sh"
    job_id, lines, findings = run_job(
        lab, STEP, SHRINK.format("n[1-2,4]"), STEP, source, "cat slurm_job_*.sh", "echo sourced", STEP
    )
    assert ours(lines) == [line_of(job_id)]
    told = [(one["code"], one["text"], one["node"], one["step_id"]) for one in findings]
    assert told == [("stale-node-list", line_of(job_id), "n1", "1")]
    assert lines.index(line_of(job_id)) < lines.index("sourced")
    assert (lines.count("1 n[1-4] n[1-4] 4"), lines.count("1 n[1-2,4] n[1-2,4] 3")) == (2, 1)
    # The supervisor writes what scontrol writes.
    assert content(NODES, "8(x3)") in "\n".join(lines)


def test_a_step_on_a_part_of_an_unchanged_job_is_as_it_should_be(lab: Cluster) -> None:
    _, lines, findings = run_job(lab, STEP, "srun --overlap -N1 -n1 -w n1 true")
    assert (ours(lines), findings) == ([], [])


def test_the_jobs_nodes_are_repaired(lab: Cluster, repairing: None) -> None:
    job_id, lines, findings = run_job(lab, SHRINK.format("n[1-2,4]"), STEP)
    assert ours(lines) == []
    assert [lines.count(f"{rank} n[1-2,4] n[1-2,4] 3") for rank in (0, 1)] == [1, 1]
    assert [one["text"] for one in findings] == [line_of(job_id)]


def test_a_plain_step_after_a_resume_is_told(lab: Cluster) -> None:
    job = new_job(lab)
    later = f"cd /; {STEP}; . ~/.local/state/stepguard/$SLURM_CLUSTER_NAME/$SLURM_JOB_ID/slurm_job_*_resize.sh; {STEP}"
    job.submit(f"srun --auto-resume=1 -N2 -n2 {job.ring(60)}\n{later}", "-w", "n[1-3]", "-N3", "--exclusive")
    job.await_steps(5)
    lab.run(["sh", "-c", "echo 'replace: XID 79' > /run/stepguard/fault"], host="n2", user="root")
    try:
        job.await_steps(3, attempt=1, within_s=60)
        findings, lines = findings_of(lab, job.id), job.out().splitlines()
    finally:
        lab.run(["rm", "-f", "/run/stepguard/fault"], host="n2", user="root")
    line = line_of(job.id, "n2", "n[1,3]")
    assert ours(lines) == [line]
    assert [one["text"] for one in findings] == [line]
    assert lines.count("1 n[1,3] n[1,3] 2") == 1


def test_what_a_script_was_warned_of_comes_true_when_a_node_dies(lab: Cluster) -> None:
    job = new_job(lab)
    head = 'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tail -n1)'
    # Within the step the variable is that of the attempt, and nothing comes true.
    within = "export HEAD_NODE=$(scontrol show hostnames $SLURM_JOB_NODELIST | tail -n1)"
    step = f"srun --auto-resume=1 -N2 -n2 bash -c '{within}; {job.ring(20)}'"
    job.submit(f"{head}\n{step}", "-w", "n[1-3]", "-N3", "--exclusive")
    job.await_steps(5)
    lab.power_off("n2")
    job.await_steps(3, attempt=1, within_s=60)
    shown = record_shown(lab, job.id)
    kept = Record(Path(shown["directories"][0]))
    line = kept.script.decode().splitlines().index(head) + 1
    told = (
        f"line {line} used the node list of attempt 0: when attempt 1 began, "
        "SLURM_JOB_NODELIST still named n2, which was lost"
    )
    assert [(one["line"], one["happened"]) for one in shown["script_findings"]] == [(line, told), (line + 1, "")]
    found = [one for one in kept.lines("findings.jsonl") if one.get("line") == line]
    assert [(one["kind"], one["severity"]) for one in found] == [("stale-nodelist", "error")]
    page = lab.run([f"{PREFIX}/bin/stepguard", "job", job.id]).stdout
    assert f"\nFindings\n  stale-nodelist: {told}\n" in page
    assert f"\nIn the script\n  line {line}: error SG201: SLURM_JOB_NODELIST" in page
