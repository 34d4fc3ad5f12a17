# SPDX-License-Identifier: Apache-2.0
"""The demonstration tells its stories to the end, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import Process
from lab.entry import execute
from lab.processes import start
from lab.releases import Release

_REPOSITORY = Path(__file__).parents[2]
_PACKAGES = Release.find(None).root / "usr/lib/python3/dist-packages"


def needs(package: str) -> pytest.MarkDecorator:
    """Skips where the lab's hosts, of whatever release, do not have that package for their Python."""
    missing = not (_PACKAGES / package).exists()
    return pytest.mark.skipif(missing, reason=f"python3-{package} is not installed on the lab's hosts")


pytestmark = needs("numpy")


@pytest.fixture
def demo(tmp_path: Path) -> Callable[[str], Process]:
    """Starts a story; its lab lives below tmp_path/labs."""
    labs = tmp_path / "labs"
    labs.mkdir()
    env = {**os.environ, "PYTHONPATH": "tests", "TMPDIR": str(labs)}
    argv = ["/usr/bin/python3", "-m", "demo"]
    return lambda fault: start([*argv, fault], output=tmp_path / "demo", env=env, cwd=str(_REPOSITORY))


def assert_record(closing: str, heading: str, *lines: str) -> None:
    """The story ends with the record of its job."""
    record = closing.split("as `stepguard job 1` shows it (shortened):\n\n")[1]
    assert record.startswith(f"{heading}\nof alice on cluster lab")
    for line in lines:
        assert re.search(line, record, re.MULTILINE), record


def assert_nothing_left(tmp_path: Path) -> None:
    assert not list((tmp_path / "labs").iterdir())


def test_the_story_of_a_node(demo: Callable[[str], Process], tmp_path: Path) -> None:
    told = demo("node")
    assert told.wait(120) == 0, told.describe()
    assert "[Auto Resume] Info: JobID: 1 StepID: 0 Retrying step. Attempt number: 1\n" in told.stdout
    assert "\033" not in told.stdout, "colours are for terminals"
    story, closing = told.stdout.split("The training went on from its checkpoint of step ")
    assert f"attempt 0: checkpoint of step {closing.split()[0]:>4}," in story
    seconds = {name: float(value) for name, value in re.findall(r"^  (\w*) +(\d+\.\d\d) s  ", closing, re.MULTILINE)}
    assert list(seconds) == ["detect", "decide", "replace", "relaunch", ""]
    assert sum(seconds.values()) == pytest.approx(2 * seconds[""], abs=0.05)
    assert 1 < seconds["detect"] < 10, "between the heartbeat and what a slow machine makes of the default silence"
    assert "the batch script starts again" in closing
    assert_record(
        closing,
        "Job 1 spirals: completed",
        r"^  2 +3 +n\[1-2,4\] .* exit status 0 ",
        r"attempt 0 ended with status 1 after .* hardware: n3: does not answer",
        r"^  \| done: 450 steps",
    )
    assert_nothing_left(tmp_path)


@needs("torch")
def test_the_story_of_a_splice(demo: Callable[[str], Process], tmp_path: Path) -> None:
    told = demo("splice")
    assert told.wait(150) == 0, told.describe()
    story, closing = told.stdout.split("The survivors kept their ranks ")
    assert "Verdict: hardware: n3: does not answer\n" in story, "although the program failed by itself, with status 1"
    assert re.search(r"rank 2 on n4: no checkpoint on this node, takes that of rank [01]\n", story)
    assert re.search(r"job 2 \(stepguard-1\): COMPLET", story), "the helper job ends with its job"
    seconds = {name: float(value) for name, value in re.findall(r"^  (\w*) +(\d+\.\d\d) s  ", closing, re.MULTILINE)}
    assert list(seconds) == ["detect", "decide", "replace", "relaunch", ""]
    assert seconds["replace"] < 5, "an idle node is there"
    assert_nothing_left(tmp_path)


def test_the_story_of_an_application(demo: Callable[[str], Process], tmp_path: Path) -> None:
    told = demo("application")
    assert told.wait(120) == 0, told.describe()
    assert "Retrying" not in told.stdout
    closing = told.stdout.split("The verdict, as its user reads it:\n")[1]
    assert closing.startswith("  [Auto Resume] Info: JobID: 1 StepID: 0 Not resumed: application: ")
    assert_record(closing, "Job 1 spirals: failed, exit status 1", r"first to fail: task \d of step 0 on n\d ")
    assert_nothing_left(tmp_path)


@pytest.mark.timeout(240)
def test_the_story_of_a_batch_host(demo: Callable[[str], Process], tmp_path: Path) -> None:
    told = demo("batch-host")
    assert told.wait(200) == 0, told.describe()
    closing = told.stdout.split("The training went on from its checkpoint of step ")[1]
    assert_record(closing, "Job 1 spirals: completed", r"^  1 .* completed .* this one$", r"the batch host n1 was lost")
    assert_nothing_left(tmp_path)


def test_an_interrupted_story(demo: Callable[[str], Process], tmp_path: Path) -> None:
    told = demo("node")
    told.wait_output("all 3 ranks train", 60)
    told.send_signal(signal.SIGINT)
    assert told.wait(20) == 130, told.describe()
    assert "interrupted" in told.stdout
    assert "Traceback" not in told.stderr
    assert_nothing_left(tmp_path)


def test_a_story_that_goes_another_way(demo: Callable[[str], Process], tmp_path: Path) -> None:
    told = demo("node")
    told.wait_output("all 3 ranks train", 60)
    (lab,) = (tmp_path / "labs").iterdir()
    assert execute(["scancel", "1"], host="login", user="root", lab=lab) == 0
    assert told.wait(60) == 1, told.describe()
    assert "demo: the job is CANCELLED before this: " in told.stderr
    assert "Where the time went" not in told.stdout
    assert_nothing_left(tmp_path)
