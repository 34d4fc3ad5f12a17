# SPDX-License-Identifier: Apache-2.0
"""Somebody removes the spool or the socket, or parts of them, under an agent that runs."""

from __future__ import annotations

import re
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stepguard.doctor.agent import ask, check_agent
from stepguard.places import lock_holder
from stepguard.records import spool, wire
from unit.agent.agent_process import AgentProcess, children, epilog, fields, prolog, wait_until

Make = Callable[..., AgentProcess]


def _is_whole(agent: AgentProcess) -> bool:
    layout = agent.layout
    return all(path.exists() for path in (layout.lock, layout.notes, layout.jobs))


def _remove(*paths: Path) -> None:
    """As an administrator does it, while the agent may be writing there."""
    subprocess.run(["rm", "-rf", *map(str, paths)], check=False)


def _remove_all(agent: AgentProcess) -> None:
    _remove(agent.layout.root)


def _remove_contents(agent: AgentProcess) -> None:
    _remove(*agent.layout.root.iterdir())


@pytest.mark.parametrize(
    ("remove", "said"),
    [
        (_remove_all, ["jobs", "lock", "notes"]),
        (_remove_contents, ["jobs", "lock", "notes"]),
        (lambda agent: _remove(agent.layout.jobs), ["jobs"]),
        (lambda agent: _remove(agent.layout.notes), ["notes"]),
        (lambda agent: agent.layout.lock.unlink(), ["lock"]),
    ],
)
def test_what_is_removed_of_the_spool_is_made_anew(
    agent: AgentProcess, remove: Callable[[AgentProcess], None], said: list[str]
) -> None:
    remove(agent)
    assert agent.status()["notes"] == 0, "no traceback meanwhile"
    wait_until(lambda: _is_whole(agent))
    for path, mode in ((agent.layout.root, 0o700), (agent.layout.notes, 0o700), (agent.layout.jobs, 0o700)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert agent.layout.lock.read_text() == f"{agent.pid}\n"
    agent.tell(prolog(7), epilog(7))
    wait_until(lambda: agent.is_complete("7.0"))
    (agent.layout.notes / "1.note").write_bytes(wire.encode(prolog(8)))
    wait_until(lambda: agent.kinds("8.0") == ["prolog"])
    # In two lines where the agent looked while rm was at work.
    named = re.findall(r"([a-z, ]+) of the spool \S+ had been removed, and were made anew", agent.log())
    assert sorted(name for names in named for name in names.strip().split(", ")) == said
    assert "Traceback" not in agent.log()
    second = subprocess.run(agent.argv(), capture_output=True, text=True, timeout=60)
    assert (second.returncode, f"another agent is running: pid {agent.pid}" in second.stderr) == (1, True)
    assert agent.answers()


def test_all_is_written_again_that_lies_there(agent: AgentProcess) -> None:
    wait_until(lambda: agent.layout.health.exists() and agent.layout.reserve.exists())
    (archiver,) = wait_until(lambda: children(agent.pid, "archiver"))
    _remove_all(agent)
    wait_until(lambda: agent.layout.health.exists() and agent.layout.reserve.exists(), 40)
    (renewed,) = wait_until(lambda: children(agent.pid, "archiver"))
    assert renewed != archiver, "it holds what is no spool any more"
    assert "the archiver ended" not in agent.log()


def test_jobs_that_run_are_recorded_from_then_on_and_say_what_is_missing(agent: AgentProcess) -> None:
    agent.tell(prolog(7), fields("step_start", 7, step_id="0"))
    agent.tell(prolog(8), epilog(8))
    wait_until(lambda: agent.is_complete("8.0"))
    _remove_contents(agent)
    wait_until(lambda: agent.kinds("7.0") == ["finding"])
    agent.tell(fields("step_end", 7, step_id="0"), epilog(7))
    wait_until(lambda: agent.is_complete("7.0"))
    assert agent.kinds("7.0") == ["finding", "step_end", "epilog"]
    (path,) = [path for _, kind, path in spool.messages(agent.layout.jobs / "7.0") if kind == "finding"]
    finding = wire.decode(path.read_bytes())
    assert (finding["code"], b"spool was removed" in finding["text"]) == (b"spool-removed", True)
    wait_until(lambda: agent.status()["attempts"] == [])
    assert "records of these jobs, which are open, begin anew: 7.0; of these jobs, only" in agent.log()
    assert "what is in the archive is left: 8.0\n" in agent.log()


def test_one_job_that_is_removed(agent: AgentProcess) -> None:
    agent.tell(prolog(7), prolog(8))
    _remove(agent.layout.jobs / "7.0")
    wait_until(lambda: agent.kinds("7.0") == ["finding"])
    assert "begin anew: 7.0\n" in agent.log()
    assert agent.kinds("8.0") == ["prolog"]


@pytest.mark.parametrize("what", ["file", "directory"])
def test_a_socket_that_is_removed_is_there_again(agent: AgentProcess, what: str) -> None:
    waiting = agent.connect()
    _remove(agent.socket.parent) if what == "directory" else agent.socket.unlink()
    wait_until(agent.socket.exists)
    agent.tell(prolog(7))
    with waiting:
        waiting.sendall(wire.encode(fields("status")))
        assert b"uptime_s" in waiting.recv(1 << 16), "who had connected before is answered"
    assert stat.S_IMODE(agent.socket.stat().st_mode) == 0o666
    assert stat.S_IMODE(agent.socket.parent.stat().st_mode) == 0o755
    assert agent.log().count("its socket was removed") == 1
    agent.stop()
    assert not agent.socket.exists()


def test_one_whose_places_another_has_taken_ends(make_agent: Make) -> None:
    first = make_agent().start()
    first.tell(prolog(7))
    _remove(first.layout.root)
    _remove(first.socket.parent)
    second = make_agent()
    assert first.process is not None
    first.process.send_signal(signal.SIGSTOP)  # so that it is surely the slower
    second.start()
    first.process.send_signal(signal.SIGCONT)
    assert first.process.wait(20) == 1
    first.process = None
    assert f"another agent is running: pid {second.pid}" in first.log()
    assert "Traceback" not in first.log()
    second.tell(prolog(8))
    assert second.socket.exists()


def test_what_cannot_be_made_anew_is_told_until_it_can(agent: AgentProcess) -> None:
    agent.socket.unlink()
    agent.socket.mkdir()
    wait_until(lambda: "cannot listen: " in agent.log())
    assert lock_holder(agent.layout.root) == agent.pid
    why = ask(agent.socket)
    (result,) = check_agent(why, agent.socket, [], True, lock_holder(agent.layout.root))
    assert f"one runs, pid {agent.pid}, and does not answer at {agent.socket}" in result.found
    assert "journalctl" in result.advice
    agent.socket.rmdir()
    wait_until(agent.answers)
    _remove(agent.layout.jobs)
    agent.layout.jobs.write_text("in its place")
    wait_until(lambda: agent.status()["spool"]["trouble"])
    found = [one.found for one in check_agent(ask(agent.socket), agent.socket, [], True)]
    assert f"cannot be made anew: cannot use the spool: {agent.layout.jobs}: File exists: " in found[0]
    agent.layout.jobs.unlink()
    wait_until(lambda: agent.status()["spool"]["trouble"] == "")
    agent.tell(prolog(7))
    assert "Traceback" not in agent.log()


def test_nobody_holds_a_spool_without_an_agent(tmp_path: Path) -> None:
    assert lock_holder(tmp_path) is None
    (tmp_path / "lock").write_text("7\n")
    assert lock_holder(tmp_path) is None
