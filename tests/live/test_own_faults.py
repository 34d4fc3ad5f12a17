# SPDX-License-Identifier: Apache-2.0
"""A fault of stepguard's own costs the user the guard, never the step, and never begins the step twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from product import installed

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

PYTHON = "/opt/stepguard/venv/bin/python"
# The supervisor as it is installed, but for one part of it that breaks.
BROKEN = """
import sys
sys.path.append("/opt/stepguard/venv/lib/python{{}}.{{}}/site-packages".format(*sys.version_info))
import stepguard.resume.attempt, stepguard.resume.supervisor
from stepguard.cli.supervise import main

def broken(*_, **__):
    raise ZeroDivisionError("injected")

{place} = property(broken) if {is_property} else broken
sys.exit(main(["--", "srun", "-N1", "sh", "-c", {program!r}]))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, prefix=installed()) as lab:
        yield lab


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("stepguard.resume.supervisor.one_srun", "this step runs without --auto-resume"),
        ("stepguard.resume.supervisor.Supervisor._open_journal", "this step runs without --auto-resume"),
        ("stepguard.resume.attempt.Attempt._look_up_steps", "this step is no longer guarded"),
        ("stepguard.resume.supervisor.Supervisor._recovery", "this step is no longer guarded"),
        ("stepguard.resume.attempt.Attempt._interruption", "this step is no longer guarded"),
    ],
    ids=lambda value: value.rpartition(".")[2] if value.startswith("stepguard.") else None,
)
def test_it_costs_the_guard_and_the_step_runs_once(cluster: Cluster, place: str, told: str) -> None:
    runs = cluster.home() / "runs"
    runs.unlink(missing_ok=True)
    program = f"echo run >> {runs}; sleep 0.5; exit 3"
    words = [PYTHON, "-IS", "-c", BROKEN.format(place=place, is_property=place.endswith("_recovery"), program=program)]
    process = cluster.start(["salloc", "-Q", "-N1", "--exclusive", *words])
    assert process.wait(60) == 3, process.stderr
    assert runs.read_text() == "run\n"
    assert told in process.stderr
    assert "ZeroDivisionError: injected" in process.stderr
