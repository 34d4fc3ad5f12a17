# SPDX-License-Identifier: Apache-2.0
"""A listed node that has left the job is told, once, or repaired, where a file says which nodes the job has now."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.recorder import BATCH, USER, Node, recording
from shim.test_stale_list import LIST, NUMBER, OLD_LIST, OLD_NUMBER, STEP_LIST, STEP_NUMBER, variables
from stepguard.resume.resized import content

NAME = "slurm_job_71_resize.sh"
PART = variables("n1", 1, "n[1-4]", 4)
"""A step on fewer nodes than its job has, or had."""
SCRIPT = content(("n1", "n2", "n4"), "1(x3)")
LINE = f"stepguard: {LIST} is stale: n3 has left job 71 (its nodes are n[1-2,4]); use {STEP_LIST} or: stepguard nodes"


def listing(nodes: str, *more: str) -> str:
    """A script that says so, and more lines."""
    return "".join(f"{line}\n" for line in (f'export {LIST}="{nodes}"', *more))


def put(path: Path, text: str | bytes = SCRIPT, age_s: float = 0) -> Path:
    """Makes the user's file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(path, (time.time() - age_s,) * 2)
    os.chown(path, USER, -1)
    return path


def said(node: Node, env: dict[str, str]) -> list[str]:
    """What the user reads; it must be what the record gets."""
    with recording(node.socket) as agent:
        done = node.step(env=env)
    node.socket.unlink()
    findings = [message["text"].decode() for message in agent.messages if message["kind"] == b"finding"]
    assert done.said == findings
    # Told, and left alone.
    assert {name: done.task.get(name) for name in env} == env
    return findings


def test_as_scontrol_writes_it() -> None:
    assert SCRIPT == (
        'export SLURM_NODELIST="n[1-2,4]"\nexport SLURM_JOB_NODELIST="n[1-2,4]"\nexport SLURM_NNODES=3\n'
        'export SLURM_JOB_NUM_NODES=3\nexport SLURM_JOB_CPUS_PER_NODE="1(x3)"\n'
        "unset SLURM_NPROCS\nunset SLURM_NTASKS\nunset SLURM_TASKS_PER_NODE\n"
    )


def test_a_listed_node_that_has_left_is_told_once(node: Node) -> None:
    put(node.directory / NAME)
    node.plugstack += "\noptional {plugin}"
    with recording(node.socket) as agent:
        assert node.step(env=PART, tasks=3).said == [LINE]
        assert node.step(env=PART, tasks=3, node_index=1).said == []
    kinds = [message["kind"].decode() for message in agent.messages]
    assert kinds == ["step_start", "finding", "step_end", "step_start", "step_end"]
    finding = agent.messages[1]
    told = {key: finding[key].decode() for key in ("code", "text", "variable", "value", "step_node_list")}
    assert told == {
        "code": "stale-node-list",
        "text": LINE,
        "variable": LIST,
        "value": "n[1-4]",
        "step_node_list": "n1",
    }
    assert agent.senders == [os.geteuid()] * 5


def test_told_without_an_agent(node: Node) -> None:
    put(node.directory / NAME)
    assert node.step(env=PART).said == [LINE]


LONG = [f"{letter}{number}" for number in range(2500) for letter in "xy"]  # which no list folds
FOUND: dict[str, tuple[dict[str, str], str, str, str]] = {
    "several": (PART, listing("n1"), LIST, "n2,n3,n4 have left job 71 (its nodes are n1)"),
    "replaced": (PART, listing("n[1-2,5-6]"), LIST, "n3,n4 have left job 71 (its nodes are n[1-2,5-6])"),
    "number alone put right": (
        variables("n[1-2]", 2, "n[1-3]", 2),
        listing("n[1-2]"),
        LIST,
        "n3 has left job 71 (its nodes are n[1-2])",
    ),
    "list alone put right": (
        variables("n1", 1, "n[1-2]", 3),
        listing("n[1-2]"),
        NUMBER,
        "job 71 has 2 nodes, n[1-2], the number says 3",
    ),
    "old list": (
        variables("n1", 1, "n1", 1) | {OLD_LIST: "n[1-2]"},
        listing("n1"),
        OLD_LIST,
        "n2 has left job 71 (its nodes are n1)",
    ),
    "old number": (
        variables("n1", 1, "n[1-2]", 2) | {OLD_NUMBER: "3"},
        listing("n[1-2]"),
        OLD_NUMBER,
        "job 71 has 2 nodes, n[1-2], the number says 3",
    ),
    "thousands": (
        variables("n1", 1, "n[1-60000]", 60000),
        listing("n[1-59999]"),
        LIST,
        "n60000 has left job 71 (its nodes are n[1-59999])",
    ),
    "long lists": (
        variables("x0", 1, ",".join(LONG), len(LONG)),
        listing(",".join(LONG[::2]), f"export SLURM_NNODES={len(LONG) // 2}"),
        LIST,
        f"{','.join(LONG[1::2])[:256]}... have left job 71 (its nodes are {','.join(LONG[::2])[:256]}...)",
    ),
    "as large a file as may be": (
        PART,
        SCRIPT + "unset SLURM_NPROCS\n" * 13_700,
        LIST,
        "n3 has left job 71 (its nodes are n[1-2,4])",
    ),
}


@pytest.mark.parametrize(("env", "text", "name", "what"), FOUND.values(), ids=FOUND)
def test_found(node: Node, env: dict[str, str], text: str, name: str, what: str) -> None:
    put(node.directory / NAME, text)
    use, hint = (STEP_LIST, "nodes") if name in (LIST, OLD_LIST) else (STEP_NUMBER, "nodes --count")
    assert said(node, env) == [f"stepguard: {name} is stale: {what}; use {use} or: stepguard {hint}"]


SILENT: dict[str, tuple[dict[str, str], str]] = {
    "sourced": (variables("n1", 1, "n[1-2,4]", 3), SCRIPT),
    "written otherwise": (PART, listing("n4,n[1-3]")),
    "the job has grown": (PART, listing("n[1-9]")),
    "lacks a node of the step": (PART, listing("n[2-3]")),
    "a whole step": (variables("n[1-2]", 2, "n[1-2]", 2), listing("n[1-2]")),
    "guarded": ({**PART, "STEPGUARD_ATTEMPT": "1"}, SCRIPT),
    "placed": ({**PART, "SLURM_STEPGUARD_PLACES": "1"}, SCRIPT),
    "of an earlier run, 24.11": ({**PART, "SLURM_JOB_START_TIME": str(int(time.time()) + 3600)}, SCRIPT),
    "of an earlier run, 22.05": ({**PART, "SLURM_RESTART_COUNT": "1"}, SCRIPT),
    "no start time": ({**PART, "SLURM_JOB_START_TIME": "soon"}, SCRIPT),
}


@pytest.mark.parametrize(("env", "text"), SILENT.values(), ids=SILENT)
def test_silent(node: Node, env: dict[str, str], text: str) -> None:
    node.config += "\nrepair_nodelist = true"
    put(node.directory / NAME, text)
    with recording(node.socket) as agent:
        done = node.step(env=env)
    assert done.log == []
    assert [message["kind"] for message in agent.messages] == [b"step_start", b"step_end"]
    assert {name: done.task[name] for name in PART} == {name: env[name] for name in PART}


@pytest.mark.parametrize("env", [{"STEPGUARD_ATTEMPT": "0"}, {"SLURM_RESTART_COUNT": "0"}], ids=["attempt", "restart"])
def test_a_first_attempt_and_a_first_run_are_told(node: Node, env: dict[str, str]) -> None:
    put(node.directory / NAME)
    assert said(node, {**PART, **env}) == [LINE]


def test_a_requeued_job_is_told_of_its_own_change(node: Node) -> None:
    put(node.directory / NAME)
    started = {"SLURM_RESTART_COUNT": "2", "SLURM_JOB_START_TIME": str(int(time.time()) - 60)}
    assert said(node, {**PART, **started}) == [LINE]


def test_a_batch_script_has_the_controllers_word(node: Node) -> None:
    put(node.directory / NAME)
    assert node.step(env=PART, step=BATCH).said == []


@pytest.mark.parametrize("state", ["XDG_STATE_HOME", "HOME", "relative"])
def test_the_supervisors_file(node: Node, state: str) -> None:
    home = node.directory / "home"
    base = home if state == "XDG_STATE_HOME" else home / ".local/state"
    put(base / "stepguard/lab-1.x/71" / NAME)
    env = {"HOME": str(home), "SLURM_CLUSTER_NAME": "lab-1.x"}
    if state != "HOME":
        env["XDG_STATE_HOME"] = str(base) if state == "XDG_STATE_HOME" else "state"
    assert said(node, {**PART, **env}) == [LINE]


@pytest.mark.parametrize("cluster", ["", ".", "..", "../x", "a b", "\xe4", "x" * 5000])
def test_no_place_for_odd_clusters(node: Node, cluster: str) -> None:
    put(node.directory / "stepguard/x/71" / NAME)
    env = {"XDG_STATE_HOME": str(node.directory), "HOME": str(node.directory), "SLURM_CLUSTER_NAME": cluster}
    assert said(node, {**PART, **env}) == []


@pytest.mark.parametrize("newer", ["scontrol's", "the supervisor's"])
def test_the_newer_one_counts(node: Node, newer: str) -> None:
    scontrols = newer == "scontrol's"
    put(node.directory / NAME, listing("n[1-3]"), age_s=0 if scontrols else 0.5)
    put(node.directory / "stepguard/lab/71" / NAME, listing("n[1-2]"), age_s=0.5 if scontrols else 0)
    (line,) = said(node, {**PART, "XDG_STATE_HOME": str(node.directory), "SLURM_CLUSTER_NAME": "lab"})
    assert ("n4 has left" if scontrols else "n3,n4 have left") in line


TEXTS: dict[str, str | bytes] = {
    "empty": "",
    "huge": SCRIPT + "unset SLURM_NPROCS\n" * 15_000,
    "sparse": b"\0" * (64 << 20),
    "binary": bytes(range(256)),
    "NUL": SCRIPT + "unset SLURM_\0\n",
    "another line": SCRIPT + "touch evil\n",
    "another variable": SCRIPT + 'export PATH="/tmp"\n',
    "a blank line": SCRIPT + "\n",
    "a comment": "# me\n" + SCRIPT,
    "CRLF": SCRIPT.replace("\n", "\r\n"),
    "cut": SCRIPT[:-1],
    "cut in the list": SCRIPT[:60],
    "substitution": listing("$(touch evil)n1"),
    "old substitution": listing("`touch evil`n1"),
    "substituted elsewhere": listing("n1", 'export SLURM_JOB_CPUS_PER_NODE="$(touch evil)"'),
    "quotes": listing('n1";touch evil;"'),
    "a backslash": listing("n1\\"),
    "no quotes": SCRIPT.replace('"', ""),
    "single quotes": SCRIPT.replace('"', "'"),
    "a character beyond ASCII": listing("n1,\xe4"),
    "a terminal's": listing("n1,\x1b[2J"),
    "two lists": SCRIPT + listing("n1"),
    "lists that differ": listing("n1", 'export SLURM_NODELIST="n[1-2]"'),
    "a number that differs": listing("n1", "export SLURM_JOB_NUM_NODES=2"),
    "an old number that differs": listing("n1", "export SLURM_NNODES=0"),
    "a long number": listing("n1", "export SLURM_NNODES=4294967297"),
    "no number": listing("n1", "export SLURM_NNODES="),
    "no list": "export SLURM_NNODES=1\n",
    "an empty list": listing(""),
    "half a list": listing("n[1-"),
    "too many names": listing("n1,m[1-65536]"),
    "too long a list": listing(",".join(f"n{number}" for number in range(1, 12_000))),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_odd_texts_say_nothing(node: Node, text: str | bytes) -> None:
    put(node.directory / NAME, text)
    assert said(node, PART) == []
    assert not (node.directory / "evil").exists()


def _link(path: Path) -> None:
    path.symlink_to(put(path.with_name("target")))


def _of_another(path: Path) -> None:
    os.chown(put(path), USER + 1, -1)


def _users(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def made(path: Path) -> None:
        make(path)
        os.chown(path, USER, -1)

    return made


THINGS: dict[str, Callable[[Path], object]] = {
    "FIFO": _users(os.mkfifo),
    "link": _link,
    "directory": _users(Path.mkdir),
    "device": _users(lambda path: os.mknod(path, 0o020666, os.makedev(1, 5))),
    "unreadable": lambda path: put(path).chmod(0),
    "another user's": _of_another,
}


@pytest.mark.parametrize("make", THINGS.values(), ids=THINGS)
def test_what_is_no_file_of_the_users_says_nothing(node: Node, make: Callable[[Path], object]) -> None:
    if os.geteuid() != 0 and make in (_of_another, THINGS["device"]):
        pytest.skip("only root can make it")
    make(node.directory / NAME)
    assert said(node, PART) == []


def test_beside_what_says_nothing_the_other_one_counts(node: Node) -> None:
    put(node.directory / "stepguard/lab/71" / NAME, age_s=60)
    (node.directory / NAME).mkdir()
    assert said(node, {**PART, "XDG_STATE_HOME": str(node.directory), "SLURM_CLUSTER_NAME": "lab"}) == [LINE]


@pytest.mark.parametrize("node_index", [0, 1])
def test_repaired(node: Node, node_index: int) -> None:
    put(node.directory / NAME)
    node.config += "\nrepair_nodelist = true"
    with recording(node.socket) as agent:
        done = node.step(env=PART, node_index=node_index, tasks=2)
    assert done.log == []
    now = {LIST: "n[1-2,4]", OLD_LIST: "n[1-2,4]", NUMBER: "3", OLD_NUMBER: "1"}
    assert {name: done.task[name] for name in now} == now
    findings = [message["text"].decode() for message in agent.messages if message["kind"] == b"finding"]
    assert findings == ([LINE] if node_index == 0 else [])


def test_repaired_as_far_as_it_is_there(node: Node) -> None:
    put(node.directory / NAME)
    node.config += "\nrepair_nodelist = true"
    env = {name: value for name, value in PART.items() if name not in (OLD_LIST, NUMBER)} | {OLD_NUMBER: "4"}
    task = node.step(env=env).task
    assert (task[LIST], task[OLD_NUMBER]) == ("n[1-2,4]", "3")
    assert not {OLD_LIST, NUMBER} & task.keys()
