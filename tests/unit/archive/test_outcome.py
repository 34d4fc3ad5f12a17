# SPDX-License-Identifier: Apache-2.0
"""How a job ended, from what the releases of Slurm were seen to tell of each way."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from stepguard.archive.fold import fold
from stepguard.archive.outcome import Outcome, Told, outcome_of
from stepguard.records.manifest import Exit, Manifest, StepRecord
from unit.archive import spools
from unit.archive.building import START_S, manifest

TERM, WELL = (0, 15), (0, 0)
AT = datetime.datetime.fromtimestamp(START_S + 60).isoformat()
BATCH = [StepRecord("batch", "ended")]


def notice(reason: str = "", job: str = "12", at: str = AT) -> bytes:
    return f"slurmstepd-n1: error: *** JOB {job} ON n1 CANCELLED AT {at}{reason} ***\n".encode()


def outcome(
    batch: tuple[int, int] | None, epilog: tuple[int, int] | None, output: bytes = b"", **fields: Any
) -> Outcome:
    ended = manifest(**{"steps": BATCH, **fields})
    return outcome_of(ended, Told(batch, epilog, [output], START_S + 3600))


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("", "cancelled"),
        (" DUE to SIGNAL Terminated", "cancelled"),
        (" DUE TO TIME LIMIT", "timeout"),
        (" DUE TO PREEMPTION", "preempted"),
        (" DUE TO JOB REQUEUE", "requeued"),
        (" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "node-fail"),
    ],
)
@pytest.mark.parametrize("batch", [TERM, WELL, (3, 0)])
@pytest.mark.parametrize("epilog", [WELL, (0, 1), None])
def test_what_slurmstepd_wrote(reason: str, word: str, batch: tuple[int, int], epilog: tuple[int, int] | None) -> None:
    text = f"*** JOB 12 ON n1 CANCELLED AT {AT}{reason} ***"
    assert outcome(batch, epilog, b"x\n" + notice(reason) + b"srun: got SIGCONT\n") == (word, f"its output says {text}")


def test_a_batch_script_that_ended_by_itself() -> None:
    assert outcome(WELL, WELL) == ("completed", "")
    assert outcome((3, 0), (3, 0)) == ("failed", "")
    assert outcome(TERM, TERM) == ("failed", "")
    assert outcome(WELL, None) == ("completed", "")
    assert outcome(TERM, None) == ("failed", "")
    assert outcome((0, 9), (0, 9), notice()) == ("failed", "")  # scancel --batch --signal=KILL


def test_a_batch_script_that_slurm_ended_and_an_output_that_says_nothing() -> None:
    why = "Slurm ended the job before its batch script ended"
    assert outcome(TERM, WELL, end_s=START_S + 60) == ("cancelled", f"{why}; what for, nothing tells")
    assert outcome(TERM, WELL, end_s=START_S + 3601) == ("timeout", f"{why}, when its time limit was reached")
    assert outcome(WELL, (0, 1), end_s=START_S + 60).word == "cancelled"


@pytest.mark.parametrize(
    "output",
    [
        notice(job="13"),
        notice(at=datetime.datetime.fromtimestamp(START_S - 60).isoformat()),
        notice(" DUE to SIGNAL User defined signal 1"),
        notice().replace(b"JOB 12", b"STEP 12.0"),
        b"JOB 12 CANCELLED",
    ],
)
def test_what_is_not_of_this_attempt(output: bytes) -> None:
    assert outcome(WELL, WELL, output) == ("completed", "")


def test_nothing_that_was_told_is_no_success() -> None:
    assert outcome(None, WELL) == ("ended", "how its batch script ended, nothing tells")
    assert outcome(None, WELL, steps=[]) == ("ended", "it was not started: its batch script never began")
    assert outcome(None, WELL, steps=[], kind="unknown").word == "ended"
    assert outcome(None, (2, 0), steps=[], kind="unknown").word == "failed"
    assert outcome(None, None, state="lost") == ("lost", "")
    assert outcome(None, None, state="running") == ("running", "")


def test_a_script_whose_output_slurm_could_not_open() -> None:
    told = outcome(None, (0, 53))
    assert told.word == "failed"
    assert told.why.startswith("its script did not begin: Slurm could not open its stdin, stdout or stderr ")
    assert outcome((0, 53), (0, 53)) == ("failed", ""), "a signal that the script had"


def test_a_job_that_the_gate_refused() -> None:
    refused = Told(None, WELL, is_refused=True)
    assert outcome_of(manifest(kind="unknown"), refused) == ("ended", "the gate refused it on n1")
    assert outcome_of(manifest(steps=[StepRecord("extern", "ended")]), refused).why == "the gate refused it on n1"
    assert outcome_of(manifest(steps=BATCH), refused._replace(batch_exit=WELL)) == ("completed", "")
    told = spools.Told().prolog().say("finding", code="gate", text="no job may start here: replace: XID 79").epilog()
    assert fold(told.messages, told.key, "n1", True).told.is_refused


def test_jobs_without_a_batch_script() -> None:
    well, killed = (StepRecord("0", "ended", exits=[Exit(0, 0, signal)]) for signal in (0, 15))
    assert outcome(None, WELL, steps=[killed, well], kind="interactive").word == "completed"
    assert outcome(None, WELL, steps=[well, killed], kind="interactive").word == "ended"
    assert outcome(None, (1, 0), steps=[well], kind="interactive").word == "failed"
    assert outcome(None, None, steps=[well], kind="interactive").word == "ended"


def folded(told: spools.Told) -> Manifest:
    found = fold(told.messages, told.key, "n1", True)
    assert found.manifest is not None
    assert found.told.epilog_exit == (0, 0)
    return found.manifest


def test_the_exit_is_that_of_the_batch_script_where_slurm_ended_the_job() -> None:
    codes = {"SLURM_JOB_EXIT_CODE": "0", "SLURM_JOB_EXIT_CODE2": "0:0", "SLURM_JOB_DERIVED_EC": "0"}
    ended = folded(spools.Told().prolog().batch().step_end("batch", (0, 15)).epilog(**codes))
    assert (ended.exit_status, ended.exit_signal) == TERM
