# SPDX-License-Identifier: Apache-2.0
"""What slurmstepd tells the agent of a step: each message, whoever takes it, and what it costs when nobody does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from shim.listeners import listening, never_answers
from shim.recorder import BATCH, USER, Node, recording

SCRIPT = b"#!/bin/sh\r\n\techo \xff\xfe \xc3\xa9\n\n# no newline"
ENVIRONMENT: dict[str, str | bytes] = {"LINES": "a\nb\n", "BINARY": b"\xff=\x01", "EMPTY": "", "SLURM_JOB_NAME": "x y"}


def kinds(messages: list[dict[str, bytes]]) -> list[str]:
    """Their kinds."""
    return [message["kind"].decode() for message in messages]


def of(messages: list[dict[str, bytes]], kind: str) -> dict[str, bytes]:
    """The one message of that kind."""
    (found,) = [message for message in messages if message["kind"] == kind.encode()]
    return found


def script(node: Node, text: bytes = SCRIPT) -> str:
    path = node.directory / "slurm_script"
    path.write_bytes(text)
    return str(path)


def test_batch_step(node: Node) -> None:
    before_ns = time.time_ns()
    with recording(node.socket) as agent:
        node.step([script(node), "--epochs", ""], ENVIRONMENT, step=BATCH, host={"statuses": "256"})
    assert kinds(agent.messages) == ["batch", "output", "step_end"]
    for message in agent.messages:
        common = {name: message[name] for name in ("node", "job_id", "step_id", "uid", "gid")}
        ids = {"job_id": b"71", "step_id": b"batch", "uid": str(USER).encode(), "gid": str(USER).encode()}
        assert common == {"node": b"n1", **ids}
        assert before_ns <= int(message["time_ns"]) <= time.time_ns()
        assert 0 < int(message["boottime_ns"]) <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        assert message["boot_id"].decode() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert "restart_count" not in message
    batch = of(agent.messages, "batch")
    assert (batch["script"], batch["script_size"]) == (SCRIPT, str(len(SCRIPT)).encode())
    assert batch["argv"] == os.fsencode(f"{node.directory}/slurm_script\0--epochs\0\0")
    entries = batch["environment"].split(b"\0")
    assert entries.pop() == b""
    for name, value in ENVIRONMENT.items():
        assert name.encode() + b"=" + (value if isinstance(value, bytes) else value.encode()) in entries
    assert int(batch["environment_size"]) == len(batch["environment"])
    (exit_,) = of(agent.messages, "step_end")["exits"].split(b"\0")[:-1]
    rank, status, time_ns = exit_.split()
    assert (rank, status) == (b"0", b"256")
    assert before_ns < int(time_ns) < time.time_ns()


@pytest.mark.parametrize(
    ("by_slurm", "told"),
    [("12 3", (b"12", b"3")), ("12 0", (b"12", b"0")), ("0 4294967294", (None, None)), ("12 4294967294", (None, None))],
)
def test_task_of_an_array_as_slurm_says_it_and_not_the_environment(
    node: Node, by_slurm: str, told: tuple[bytes | None, bytes | None]
) -> None:
    """Submitted from within a task of an array, a job has the variables of that one."""
    inherited: dict[str, str | bytes] = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "5"}
    with recording(node.socket) as agent:
        node.step([script(node)], inherited, step=BATCH, host={"array": by_slurm})
        node.step(["train"], inherited, host={"array": by_slurm})  # where srun says it, from its environment
    batch, start = of(agent.messages, "batch"), of(agent.messages, "step_start")
    assert (batch.get("array_job_id"), batch.get("array_task_id")) == told
    assert "array_job_id" not in start


def test_output_is_what_the_descriptors_are(node: Node) -> None:
    with recording(node.socket) as agent:
        node.step([script(node)], step=BATCH)
    output = of(agent.messages, "output")
    null = Path("/dev/null").stat()
    assert output["stdin"] == b"/dev/null"
    assert output["stdin_id"].decode() == f"{null.st_dev}:{null.st_ino}:chr"
    for name in ("stdout", "stderr"):
        assert output[name].startswith(b"pipe:[")
        assert output[f"{name}_id"].endswith(b":" + output[name][6:-1] + b":fifo")
    assert output["work_dir"] == os.fsencode(node.directory)
    # The task tells it itself, as the user.
    assert agent.senders == [os.geteuid(), USER, os.geteuid()]


def test_what_is_too_long_is_cut(node: Node) -> None:
    big = {f"BIG{number}": "x" * 100_000 for number in range(12)}
    with recording(node.socket) as agent:
        node.step([script(node, bytes(range(1, 255)) * 20_000)], {**big, "Z_LAST": "1"}, step=BATCH)
    batch = of(agent.messages, "batch")
    assert (len(batch["script"]), batch["script_size"]) == (4 << 20, b"5080000")
    assert (bytes(range(1, 255)) * 20_000).startswith(batch["script"])
    entries = batch["environment"].split(b"\0")[:-1]
    assert len([entry for entry in entries if entry.startswith(b"BIG")]) == 10
    assert b"Z_LAST=1" in entries
    assert len(batch["environment"]) <= 1 << 20
    assert int(batch["environment_size"]) > 12 * 100_000
    with recording(other := node.directory / "second.sock") as agent:
        node.config += f'\nsocket = "{other}"'
        node.step(["train", "a" * 40_000, "b" * 40_000, "c"])
    start = of(agent.messages, "step_start")
    assert start["argv"].split(b"\0") == [b"train", b"a" * 40_000, b""]
    assert start["argv_size"] == str(6 + 40_001 * 2 + 2).encode()


@pytest.mark.parametrize("kind", ["missing", "link", "fifo", "directory"])
def test_script_that_is_no_file_is_left_out(node: Node, kind: str) -> None:
    path = node.directory / "slurm_script"
    if kind == "link":
        path.symlink_to("/etc/hostname")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    with recording(node.socket) as agent:
        node.step([str(path)], step=BATCH)
    assert "script" not in of(agent.messages, "batch")
    assert "environment" in of(agent.messages, "batch")


def test_step_with_a_number(node: Node) -> None:
    env = {
        "SLURM_JOB_NODELIST": "n[1-3]",
        "SLURM_STEP_NODELIST": "n[1-2]",
        "SLURM_STEP_NUM_NODES": "2",
        "SLURM_RESTART_COUNT": "4",
        "STEPGUARD_ATTEMPT": "2",
        "HOME": "/home/alice",
        "XDG_STATE_HOME": "/state",
    }
    with recording(node.socket) as agent:
        node.step(["train", "a b"], env, node_index=1, tasks=3, host={"statuses": "0 9 256"})
    assert kinds(agent.messages) == ["step_start", "step_end"]
    start = agent.messages[0]
    told = {name: start[name].decode() for name in list(start)[list(start).index("step_id") :]}
    assert told == {
        "step_id": "3",
        "uid": str(USER),
        "gid": str(USER),
        "restart_count": "4",
        "attempt": "2",
        "node_index": "1",
        "node_count": "2",
        "local_tasks": "3",
        "task_count": "6",
        "step_node_list": "n[1-2]",
        "job_node_list": "n[1-3]",
        "home": "/home/alice",
        "xdg_state_home": "/state",
        "argv_size": "10",
        "argv": "train\0a b\0",
    }
    end = agent.messages[1]
    assert (end["restart_count"], end["attempt"], end["exits_count"]) == (b"4", b"2", b"3")
    assert [line.split()[:2] for line in end["exits"].split(b"\0")[:-1]] == [[b"3", b"0"], [b"4", b"9"], [b"5", b"256"]]


@pytest.mark.parametrize(
    ("submitted", "set_by_slurm", "told"),
    [(None, "1", b"1"), ("2", None, None), ("2", "3", b"3"), ("2", "2", None), ("x", "12345678901", None)],
)
def test_restart_count_of_a_batch_step(
    node: Node, submitted: str | None, set_by_slurm: str | None, told: bytes | None
) -> None:
    """Submitted from within a job that was requeued, the variable is that job's."""
    host = {"restarts": set_by_slurm} if set_by_slurm else {}
    with recording(node.socket) as agent:
        node.step([script(node)], {"SLURM_RESTART_COUNT": submitted} if submitted else {}, step=BATCH, host=host)
    assert [message.get("restart_count") for message in agent.messages] == [None, told, told]


def test_many_tasks(node: Node) -> None:
    with recording(node.socket) as agent:
        node.step(tasks=5000, host={"statuses": "0", "unforked": "1"})
    end = of(agent.messages, "step_end")
    exits = end["exits"].split(b"\0")[:-1]
    assert (len(exits), end["exits_count"]) == (4096, b"5000")
    assert [int(line.split()[0]) for line in exits] == list(range(4096))


@pytest.mark.parametrize("step", [0xFFFFFFFC, 0xFFFFFFFA, 0xFFFFFFFD])
def test_steps_of_slurms_own(node: Node, step: int) -> None:
    with recording(node.socket) as agent:
        node.step(step=step)
    assert agent.messages == []


def test_plugin_listed_twice(node: Node) -> None:
    node.plugstack += "\noptional {plugin}"
    with recording(node.socket) as agent:
        node.step([script(node)], step=BATCH)
        node.step(tasks=2)
    assert kinds(agent.messages) == ["batch", "output", "step_end", "step_start", "step_end"]
    assert agent.messages[-1]["exits_count"] == b"2"


def test_without_an_agent_ever(node: Node) -> None:
    assert node.step([script(node)], step=BATCH).log == []
    assert node.step().log == []
    assert not node.spool.exists()


def test_notes_without_an_agent(node: Node) -> None:
    node.spool.mkdir(mode=0o700)
    done = node.step([script(node)], step=BATCH, host={"restarts": "1"})
    done.log += node.step().log
    notes = node.notes()
    # The user cannot write there: root tells of the output at the end.
    assert kinds(notes) == ["batch", "output", "step_end", "step_start", "step_end"]
    assert notes[0]["script"] == SCRIPT
    assert notes[1]["stdout"].startswith(b"pipe:[")
    assert [note.get("restart_count") for note in notes] == [None, b"1", b"1", None, None]
    # Not on the user's stderr, and not at slurmd's usual level.
    assert len(done.log) == 5
    assert all(line.startswith("verbose: stepguard: ") for line in done.log)
    assert done.log[0].endswith(
        "no agent at " + str(node.socket) + ": No such file or directory: left a note in the spool"
    )


def test_silent_agent_is_awaited_once(node: Node) -> None:
    node.spool.mkdir(mode=0o700)
    node.config = "deadline_ms = 300"
    with listening(node.socket, never_answers):
        done = node.step([script(node)], step=BATCH)
        assert kinds(node.notes()) == ["batch", "output", "step_end"]
        assert 0.3 < done.seconds < 0.55
    assert done.log[-1] == "verbose: stepguard: step_end of job 71: the agent was silent before"


def test_agent_that_refuses(node: Node) -> None:
    node.spool.mkdir(mode=0o700)
    with recording(node.socket, b"refused no room\n") as agent:
        done = node.step()
    assert kinds(agent.messages) == ["step_start", "step_end"]
    assert node.notes() == []
    why = f"the agent at {node.socket}: refused no room"
    assert done.log == [f"info: stepguard: {kind} of job 71 is not recorded: {why}" for kind in kinds(agent.messages)]


def test_neither_agent_nor_spool_will_have_it(node: Node) -> None:
    node.spool.touch()
    done = node.step()
    assert [line.partition(":")[0] for line in done.log] == ["info", "info"]
    assert "step_start of job 71 is not recorded: no agent at " in done.log[0]
    assert "no note in " in done.log[0]
