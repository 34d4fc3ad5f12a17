# SPDX-License-Identifier: Apache-2.0
"""Which files belong to a job, as its messages say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stepguard.agent.sources import Source, sources
from stepguard.records import wire
from stepguard.records.batch import without_content
from stepguard.records.spool import message_name
from unit.agent.agent_process import environment, fields, prolog


def _sources(directory: Path, *messages: Mapping[str, bytes]) -> dict[str, Source]:
    for number, message in enumerate(messages, 1):
        (directory / message_name(number, message["kind"].decode())).write_bytes(wire.encode(message))
    return {source.name: source for source in sources(directory)}


def _batch(**variables: str) -> dict[str, bytes]:
    return fields("batch", 71, step_id="batch", script=b"#!/bin/sh\n", environment=environment(**variables))


def _of_array(batch: Mapping[str, bytes], array_job_id: int, task_id: int) -> dict[str, bytes]:
    return {**batch, "array_job_id": b"%d" % array_job_id, "array_task_id": b"%d" % task_id}


def _output(stdout: str, stderr: str, stdout_id: str, stderr_id: str) -> dict[str, bytes]:
    return fields("output", 71, stdout=stdout, stderr=stderr, stdout_id=stdout_id, stderr_id=stderr_id)


def test_without_its_environment_no_output_is_read_for_its_secrets_are_not_known(tmp_path: Path) -> None:
    batch = without_content(_of_array(_batch(HOME="/h", SLURM_SUBMIT_DIR="/w"), 70, 3))
    found = _sources(tmp_path, prolog(71), batch)
    stdout = found["stdout"]
    assert (stdout.path, stdout.is_read) == ("/w/slurm-70_3.out", False)
    assert "no room for the job's environment" in stdout.why
    assert found["resumes"] == Source("resumes", "/h/.local/state/stepguard/c/71/resumes.jsonl")


def test_what_the_task_has_open_is_the_truth(tmp_path: Path) -> None:
    told = _output("/o/out", "/o/err", "8:5:reg", "8:6:reg")
    found = _sources(tmp_path, prolog(71, SLURM_JOB_STDOUT="/elsewhere"), _batch(HOME="/h"), told)
    assert found == {
        "stdout": Source("stdout", "/o/out", identity="8:5"),
        "stderr": Source("stderr", "/o/err", identity="8:6"),
        "resumes": Source("resumes", "/h/.local/state/stepguard/c/71/resumes.jsonl"),
    }


def test_one_file_for_both_is_read_once(tmp_path: Path) -> None:
    told = _output("/o/out", "/o/hard-link", "8:5:reg", "8:5:reg")
    assert "stderr" not in _sources(tmp_path, prolog(71), _batch(), told)


def test_what_is_no_file_is_recorded_as_what_it_is(tmp_path: Path) -> None:
    found = _sources(tmp_path, _batch(), _output("pipe:[12]", "/dev/null", "14:12:fifo", "6:4:chr"))
    assert (found["stdout"].path, found["stdout"].what, found["stdout"].why) == ("", "fifo", "it went to pipe:[12]")
    assert (found["stderr"].path, found["stderr"].what) == ("", "device")
    assert "resumes" not in found, "no home is known"


def test_of_two_words_the_first_counts(tmp_path: Path) -> None:
    first, second = _output("/a", "/a", "1:1:reg", "1:1:reg"), _output("/etc/shadow", "/b", "1:2:reg", "1:3:reg")
    assert _sources(tmp_path, _batch(), first, second)["stdout"].path == "/a"


def test_patterns_where_the_task_told_nothing(tmp_path: Path) -> None:
    slurm = prolog(71, SLURM_JOB_STDOUT="%x.%u", SLURM_JOB_STDERR="/e/%j", SLURM_JOB_WORK_DIR="/w", SLURM_JOB_USER="al")
    found = _sources(tmp_path, slurm, _batch(SLURM_JOB_NAME="my job"))
    assert (found["stdout"].path, found["stderr"].path) == ("/w/my job.al", "/e/71")


def test_the_default_names(tmp_path: Path) -> None:
    inherited = _batch(SLURM_ARRAY_JOB_ID="60", SLURM_ARRAY_TASK_ID="9", SLURM_SUBMIT_DIR="/s")
    assert _sources(tmp_path, prolog(71), inherited)["stdout"].path == "/s/slurm-71.out"
    found = _sources(tmp_path, prolog(71), _of_array(inherited, 70, 2))
    assert (list(found), found["stdout"].path) == (["stdout"], "/s/slurm-70_2.out")


def test_a_guarded_step_of_a_job_without_a_script_tells_where_its_journal_is(tmp_path: Path) -> None:
    plain = fields("step_start", 71, step_id="0")
    guarded = fields("step_start", 71, step_id="1", attempt="1", home="/h", xdg_state_home="/state")
    assert _sources(tmp_path, prolog(71), plain) == {}
    found = _sources(tmp_path, prolog(71), plain, guarded)
    assert found == {"resumes": Source("resumes", "/state/stepguard/c/71/resumes.jsonl")}


def test_a_node_without_the_script_reads_nothing(tmp_path: Path) -> None:
    assert _sources(tmp_path, prolog(71), fields("step_start", 71, step_id="0")) == {}
