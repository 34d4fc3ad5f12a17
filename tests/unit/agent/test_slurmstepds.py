# SPDX-License-Identifier: Apache-2.0
"""Which jobs have a slurmstepd, and what an agent does with an attempt whose slurmstepd is gone without a word."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepguard.agent.slurmstepds import jobs_with_one
from stepguard.records import wire
from unit.agent.agent_process import USER, AgentProcess, fields, prolog, wait_until

Make = Callable[..., AgentProcess]
SLURMD = b"/usr/sbin/slurmd\0-D\0"
ROOT, NOT_ROOT = "Uid:\t0\t1000\t0\t0\n", "Uid:\t1000\t0\t0\t0\n"
# No job of a lab beside us has such a number; its processes can be seen from here.
JOB, OTHER_JOB = 4_294_000_001, 4_294_000_002
# Minutes become a moment.
_QUICK = """
from stepguard.agent import attempts, slurmstepds
attempts.NO_EPILOG_S = 1.0
slurmstepds._AGAIN_S = 0.2
"""


def _proc(directory: Path, *processes: tuple[bytes, str]) -> Path:
    for number, (command, owner) in enumerate(processes, 100):
        (directory / str(number)).mkdir()
        (directory / str(number) / "cmdline").write_bytes(command)
        (directory / str(number) / "status").write_text(f"Name:\tx\n{owner}Gid:\t0\t0\t0\t0\n")
    return directory


def test_the_titles_of_all_releases(tmp_path: Path) -> None:
    titles = [b"slurmstepd: [7.batch]\0", b"slurmstepd: [7.0]    ", b"slurmstepd: [67000002.extern]\0"]
    others = [b"", b"bash\0-c\0slurmstepd: [8.0]\0", b"/usr/sbin/slurmdbd\0", b"/opt/slurmctld\0"]
    commands = [SLURMD, *titles, *others]
    assert jobs_with_one(_proc(tmp_path, *((command, ROOT) for command in commands))) == frozenset({7, 67000002})


def test_a_process_of_a_users_counts_for_nothing(tmp_path: Path) -> None:
    mine = [(b"slurmstepd: [9.0]\0", NOT_ROOT), (b"slurmstepd\0", NOT_ROOT)]
    assert jobs_with_one(_proc(tmp_path, (SLURMD, ROOT), *mine)) == frozenset()


@pytest.mark.parametrize(
    "processes",
    [
        [],
        [(b"slurmstepd: [7.0]\0", ROOT)],
        [(SLURMD, NOT_ROOT)],
        [(SLURMD, ROOT), (b"/usr/sbin/slurmstepd\0", ROOT)],  # has just begun
        [(SLURMD, ROOT), (b"slurmstepd: [job 7]\0", ROOT)],
    ],
)
def test_what_cannot_be_told(tmp_path: Path, processes: list[tuple[bytes, str]]) -> None:
    assert jobs_with_one(_proc(tmp_path, *processes)) is None


@contextmanager
def _running(*titles: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of root that are called so."""
    started = [subprocess.Popen(["bash", "-c", 'exec -a "$0" sleep 100', title]) for title in titles]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_an_attempt_whose_slurmstepd_was_killed_is_closed(make_agent: Make) -> None:
    directory = make_agent().directory
    (directory / "sitecustomize.py").write_text(_QUICK)
    agent = make_agent(env={"PYTHONPATH": str(directory)}).start()
    with _running("slurmd", f"slurmstepd: [{JOB}.0]", f"slurmstepd: [{OTHER_JOB}.0]") as (_, stepd, _):
        agent.tell(*(fields("step_start", job_id, step_id="0", uid=USER, gid=USER) for job_id in (JOB, OTHER_JOB)))
        agent.tell(prolog(JOB + 2), fields("step_start", JOB + 2, step_id="0", uid=USER))
        with pytest.raises(subprocess.TimeoutExpired):
            stepd.wait(4)
        assert agent.kinds(f"{JOB}.0") == ["step_start"]
        stepd.kill()
        stepd.wait()
        wait_until(lambda: agent.is_complete(f"{JOB}.0"))
        (closed,) = (agent.layout.jobs / f"{JOB}.0").glob("*.closed")
        assert wire.decode(closed.read_bytes())["why"] == b"no-slurmstepd"
        # It is complete on the disk a moment before the agent has heard so.
        wait_until(lambda: sorted(one["job_id"] for one in agent.status()["attempts"]) == [OTHER_JOB, JOB + 2])


def test_a_late_note_of_an_attempt_that_is_gone_does_not_stay(make_agent: Make) -> None:
    directory = make_agent().directory
    (directory / "sitecustomize.py").write_text(_QUICK)
    agent = make_agent(env={"PYTHONPATH": str(directory)}).start()
    with _running("slurmd"):
        late = wire.encode(fields("step_start", JOB, step_id="0", uid=USER, gid=USER))
        (agent.layout.notes / "1.note").write_bytes(late)
        wait_until(lambda: agent.is_complete(f"{JOB}.0"))
        assert agent.kinds(f"{JOB}.0") == ["step_start", "closed"]
        wait_until(lambda: agent.status()["attempts"] == [])
