# SPDX-License-Identifier: Apache-2.0
"""What was left in the spool while no agent answered."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from stepguard.records import spool, wire
from unit.agent.agent_process import USER, AgentProcess, epilog, fields, prolog, wait_until

Make = Callable[..., AgentProcess]


def _leave(agent: AgentProcess, name: str, message: Mapping[str, bytes] | bytes) -> Path:
    agent.layout.notes.mkdir(mode=0o700, parents=True, exist_ok=True)
    agent.layout.root.chmod(0o700)
    path = agent.layout.notes / name
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(message if isinstance(message, bytes) else wire.encode(message))
    temporary.rename(path)
    return path


def test_notes_are_taken_in_at_start_in_their_order(make_agent: Make) -> None:
    agent = make_agent()
    messages = [prolog(7, 1), fields("step_start", 7, step_id="0"), fields("step_end", 7, step_id="0"), epilog(7, 1)]
    for name, message in zip("dbca", messages, strict=True):
        _leave(agent, f"{name}.note", message)
    _leave(agent, "e.note", {**prolog(7), "boot_id": b"another", "time_ns": b"1"})
    agent.start()
    wait_until(lambda: agent.is_complete("7.0") and agent.is_complete("7.1"))
    assert agent.kinds("7.0") == ["prolog", "closed"]
    assert agent.kinds("7.1") == ["prolog", "step_start", "step_end", "epilog"]
    assert os.listdir(agent.layout.notes) == []  # noqa: PTH208


def test_notes_are_found_while_it_runs(agent: AgentProcess) -> None:
    _leave(agent, "a.note", prolog(7))
    wait_until(lambda: agent.kinds("7.0") == ["prolog"])
    _leave(agent, "b.note", epilog(7))
    wait_until(lambda: agent.is_complete("7.0"))


def test_a_users_word_waits_for_no_note(agent: AgentProcess) -> None:
    _leave(agent, "a.note", prolog(7))
    assert agent.ask_as(USER, fields("output", 7, stdout="/a", stderr="/b")) == b"ok\n"
    wait_until(lambda: agent.kinds("7.0") == ["prolog", "output"])


def test_a_note_of_what_was_taken_is_no_second_message(agent: AgentProcess) -> None:
    message = prolog(7)
    agent.tell(message)
    note = _leave(agent, "a.note", message)
    wait_until(lambda: not note.exists())
    assert agent.kinds("7.0") == ["prolog"]


def test_the_note_of_an_epilog_that_was_taken_makes_no_attempt_of_its_own(agent: AgentProcess) -> None:
    """The agent was stopped for longer than a hook waits; Slurm had counted the requeue before the epilog."""
    ended = epilog(7, 1)
    agent.tell(prolog(7), ended)
    wait_until(lambda: agent.is_complete("7.0") and agent.status()["attempts"] == [])
    note = _leave(agent, "a.note", ended)
    wait_until(lambda: not note.exists() and agent.status()["attempts"] == [])
    assert sorted(path.name for path in agent.layout.jobs.iterdir()) == ["7.0"]


def test_a_note_from_before_the_end_does_not_begin_the_job_anew(agent: AgentProcess) -> None:
    told, left = prolog(7), fields("step_start", 7, step_id="0")
    agent.tell(told, left, fields("step_end", 7, step_id="0"), epilog(7))
    wait_until(lambda: agent.is_complete("7.0") and agent.status()["attempts"] == [])
    again = _leave(agent, "a.note", told)
    late = _leave(agent, "b.note", {**told, "time_ns": b"1"})
    wait_until(lambda: not again.exists() and not late.exists())
    wait_until(lambda: agent.is_complete("7.0") and agent.status()["attempts"] == [])
    assert agent.kinds("7.0") == ["prolog", "step_start", "step_end", "epilog", "prolog"]
    for path in (agent.layout.jobs / "7.0").iterdir():
        path.unlink()  # as the archiver does
    (agent.layout.jobs / "7.0").rmdir()
    _leave(agent, "c.note", {**told, "time_ns": b"2"})
    wait_until(lambda: agent.is_complete("7.0") and agent.status()["attempts"] == [])
    agent.tell(prolog(7))
    assert [one["job_id"] for one in agent.status()["attempts"]] == [7], "Slurm runs it once more"


def test_what_is_no_note_is_deleted_and_said(make_agent: Make) -> None:
    agent = make_agent()
    _leave(agent, "a.note", b"garbage")
    _leave(agent, "b.note", wire.encode(prolog(7))[:-1])
    _leave(agent, "c.note", fields("prolog", job_id=0))
    _leave(agent, "d.note", fields("health_check"))
    (agent.layout.notes / "e.note").symlink_to("/etc/shadow")
    os.mkfifo(agent.layout.notes / "f.note")
    old = _leave(agent, "g.note", prolog(7)).rename(agent.layout.notes / "g.tmp")
    os.utime(old, (0, 0))
    fresh = _leave(agent, "h.note", prolog(7)).rename(agent.layout.notes / "h.tmp")
    agent.start()
    assert sorted(os.listdir(agent.layout.notes)) in ([fresh.name], ["e.note", fresh.name])  # noqa: PTH208
    assert agent.status()["attempts"] == []
    assert "is no message" in agent.log()


def _is_gone(path: Path) -> bool:
    return not path.exists()


def test_a_directory_among_the_notes_costs_no_descriptors(make_agent: Make) -> None:
    agent = make_agent()
    (agent.layout.notes / "dir.note").mkdir(parents=True, mode=0o700)
    for directory in (agent.layout.root, agent.layout.notes):
        directory.chmod(0o700)
    agent.start()
    wait_until(lambda: "cannot delete the note" in agent.log())
    for job_id in (1, 2, 3):
        note = _leave(agent, f"{job_id}.note", prolog(job_id))
        wait_until(partial(_is_gone, note))
    descriptors = [str(link.readlink()) for link in Path(f"/proc/{agent.pid}/fd").iterdir()]
    assert not [path for path in descriptors if path.endswith("dir.note")]


def test_ten_thousand_notes(make_agent: Make) -> None:
    agent = make_agent()
    agent.layout.notes.mkdir(mode=0o700, parents=True)
    agent.layout.root.chmod(0o700)
    for number in range(10_000):
        message = wire.encode(fields("step_start", 1 + number // 100, step_id=number % 100))
        (agent.layout.notes / f"{number}.note").write_bytes(message)
    agent.start()
    wait_until(lambda: not os.listdir(agent.layout.notes), 40)  # noqa: PTH208
    for job_id in (1, 100):
        found = [wire.decode(path.read_bytes()) for _, _, path in spool.messages(agent.layout.jobs / f"{job_id}.0")]
        assert [int(message["step_id"]) for message in found] == list(range(100))
