# SPDX-License-Identifier: Apache-2.0
"""Node lists in a task's environment that contradict the step's nodes are told, once, or repaired."""

from __future__ import annotations

import os

import pytest

from shim.recorder import BATCH, Node, recording

LIST, OLD_LIST = "SLURM_JOB_NODELIST", "SLURM_NODELIST"
NUMBER, OLD_NUMBER = "SLURM_JOB_NUM_NODES", "SLURM_NNODES"
STEP_LIST, STEP_NUMBER = "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES"


def variables(step: str, count: int, job: str, job_count: int, **more: str) -> dict[str, str]:
    """An environment as srun hands it over."""
    return {
        STEP_LIST: step,
        STEP_NUMBER: str(count),
        LIST: job,
        OLD_LIST: job,
        NUMBER: str(job_count),
        OLD_NUMBER: str(count),
        **more,
    }


REPLACED = variables("n[1-2,4]", 3, "n[1-3]", 3)
STALE = {
    "node replaced": (REPLACED, LIST, "runs on n[1-2,4], the list says n[1-3]"),
    "other job's": (variables("n[5-6]", 2, "n[1-3]", 3), LIST, "runs on n[5-6], the list says n[1-3]"),
    "grown": (variables("n[1-4]", 4, "n[1-3]", 3), LIST, "runs on n[1-4], the list says n[1-3]"),
    "leading zeros": (variables("n01", 1, "n1", 1), LIST, "runs on n01, the list says n1"),
    "old list alone": (
        variables("n[1-2,4]", 3, "n[1-4]", 4) | {OLD_LIST: "n[1-3]"},
        OLD_LIST,
        "runs on n[1-2,4], the list says n[1-3]",
    ),
    "number of no list": (
        variables("n[1-2]", 2, "n[1-3]", 2),
        NUMBER,
        "runs on 2 nodes, the number says 2, SLURM_JOB_NODELIST n[1-3]",
    ),
    "number too small": (
        variables("n[1-3]", 3, "n[1-3]", 2),
        NUMBER,
        "runs on 3 nodes, the number says 2, SLURM_JOB_NODELIST n[1-3]",
    ),
    "old number": (
        variables("n1", 1, "n[1-3]", 3) | {OLD_NUMBER: "2"},
        OLD_NUMBER,
        "runs on 1 node, the number says 2, SLURM_JOB_NODELIST n[1-3]",
    ),
    "terminal": (
        variables("n[1-2]", 2, "n1,\x1b[2J\x07\xff", 3) | {LIST: "n\x1b2\xff"},
        LIST,
        "runs on n[1-2], the list says n?2?",
    ),
    "long": (
        variables("n[1-2]", 2, ",".join(f"m{number}" for number in range(2000)), 2000),
        LIST,
        f"runs on n[1-2], the list says {','.join(f'm{number}' for number in range(2000))[:256]}...",
    ),
}
GOOD = {
    "all nodes": variables("n[1-3]", 3, "n[1-3]", 3),
    "fewer nodes": variables("n2", 1, "n[1-3]", 3),
    "written otherwise": variables("n[1-3]", 3, "n3,n[1-2]", 3),
    "--preserve-env": variables("n[1-2]", 2, "n[1-3]", 3) | {OLD_NUMBER: "3"},
    "list unset by the user": variables("n[1-2]", 2, "n[1-2]", 3) | {OLD_LIST: "n[1-3]"},
    "no list": {STEP_LIST: "n1", STEP_NUMBER: "1"},
    "no list of the step": variables("n[1-2,4]", 3, "n[1-3]", 3) | {STEP_LIST: ""},
    "no judgement: list": variables("n[1-2]", 2, "n[1-", 2),
    "no judgement: step": variables("n[1-", 2, "n[1-3]", 3),
    "no judgement: step's number": variables("n[1-2,4]", 2, "n[1-3]", 3),
    "no judgement: too many": variables("n[1-2]", 2, "m[1-99999]", 2),
    "no number": variables("n[1-2]", 2, "n[1-2]", 2) | {NUMBER: "-1", OLD_NUMBER: "2x"},
    "as large as may be": variables("n[1-65536]", 65536, "n[1-30000],n[30001-65536]", 65536),
    "guarded": {**REPLACED, "STEPGUARD_ATTEMPT": "1"},
}


@pytest.mark.parametrize(("env", "name", "said"), STALE.values(), ids=STALE)
def test_stale(node: Node, env: dict[str, str], name: str, said: str) -> None:
    with recording(node.socket) as agent:
        done = node.step(env={key: value.encode("latin-1") for key, value in env.items()}, tasks=2)
    (line,) = done.said
    hint = "stepguard nodes" if name in (LIST, OLD_LIST) else "stepguard nodes --count"
    use = STEP_LIST if name in (LIST, OLD_LIST) else STEP_NUMBER
    assert line == f"stepguard: {name} is stale: step 71.3 {said}; use {use} or: {hint}"
    (finding,) = [message for message in agent.messages if message["kind"] == b"finding"]
    told = {key: finding[key].decode() for key in ("code", "text", "variable", "step_node_list")}
    assert told == {"code": "stale-node-list", "text": line, "variable": name, "step_node_list": env[STEP_LIST]}
    assert finding["value"] == env[name].encode("latin-1")
    # Told, and left alone.
    assert {key: os.fsencode(done.task[key]).decode("latin-1") for key in env} == env


@pytest.mark.parametrize("env", GOOD.values(), ids=GOOD)
def test_not_stale(node: Node, env: dict[str, str]) -> None:
    node.config += "\nrepair_nodelist = true"
    with recording(node.socket) as agent:
        done = node.step(env=env)
    assert done.log == []
    assert [message["kind"] for message in agent.messages] == [b"step_start", b"step_end"]
    assert {name: done.task.get(name) for name in env} == env


def test_said_without_an_agent(node: Node) -> None:
    assert len(node.step(env=REPLACED).said) == 1


def test_said_once_a_step(node: Node) -> None:
    node.plugstack += "\noptional {plugin}"
    with recording(node.socket) as agent:
        assert len(node.step(env=REPLACED, tasks=3).said) == 1
        assert node.step(env=REPLACED, tasks=3, node_index=1).said == []
    assert [message["kind"] for message in agent.messages].count(b"finding") == 1


def test_a_batch_script_has_the_controllers_word(node: Node) -> None:
    assert node.step(env=REPLACED, step=BATCH).said == []


@pytest.mark.parametrize("node_index", [0, 1])
def test_repaired(node: Node, node_index: int) -> None:
    node.config += "\nrepair_nodelist = true"
    env = {key: value for key, value in REPLACED.items() if key != OLD_NUMBER}
    with recording(node.socket) as agent:
        done = node.step(env=env, node_index=node_index)
    assert done.log == []
    repaired = {LIST: "n[1-2,4]", OLD_LIST: "n[1-2,4]", NUMBER: "3"}
    assert {name: done.task.get(name) for name in (LIST, OLD_LIST, NUMBER, OLD_NUMBER)} == {
        **repaired,
        OLD_NUMBER: None,
    }
    findings = [message for message in agent.messages if message["kind"] == b"finding"]
    assert len(findings) == (1 if node_index == 0 else 0)


def test_lists_of_a_spliced_step_are_right(node: Node) -> None:
    node.config += "\nrepair_nodelist = true"
    places = f"1;SLURM_NTASKS=4;{LIST}=n[1,9];{NUMBER}=2;@n1=0:0-1;@n9=1:2-3"
    done = node.step(env={**REPLACED, "SLURM_STEPGUARD_PLACES": places})
    assert done.log == []
    assert (done.task[LIST], done.task[NUMBER], done.task[OLD_LIST]) == ("n[1,9]", "2", "n[1-3]")
