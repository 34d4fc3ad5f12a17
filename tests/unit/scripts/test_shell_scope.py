# SPDX-License-Identifier: Apache-2.0
"""Which variables a function, a subshell or a pipeline changes, and which ones a program gets."""

from __future__ import annotations

import pytest

from stepguard.scripts.check import check

HEAD = "#SBATCH -N 2 --exclusive\n"
NODES = "$(scontrol show hostnames $SLURM_JOB_NODELIST)"
TAIL = "\nsrun --auto-resume=1 ./a\n"


def stale(body: str, shell: str = "/bin/bash") -> list[int]:
    """The lines of stale values, counted from the first one of `body`."""
    report = check("job.sh", f"#!{shell}\n{HEAD}{body.replace('NODES', NODES)}{TAIL}".encode())
    assert report.parse == "ok"
    return [finding.line - 2 for finding in report.findings if finding.rule.kind == "stale-nodelist"]


@pytest.mark.parametrize(
    "body",
    [
        "host=fe; r(){ local host; for host in NODES; do echo $host; done; }; r; ssh $host x",
        "host=fe; r(){ local host=NODES; echo $host; }; r; ssh $host x",
        "host=fe; r(){ declare -a host; mapfile -t host < <(echo NODES); echo $host; }; r; ssh $host x",
        "host=fe; r(){ local a host; inner; }; inner(){ host=NODES; }; r; ssh $host x",
        "host=fe; r(){ local host=NODES; return; }; if x; then r; fi; ssh $host x",
        "host=NODES; r(){ local host; ssh $host x; }; r",
        "host=fe; echo NODES | while read host; do echo $host; done; ssh $host x",
        "host=fe; echo NODES | read host; ssh $host x",
        "host=fe; ( host=NODES ); ssh $host x",
    ],
)
def test_variable_that_stays_within(body: str) -> None:
    assert stale(body) == []


@pytest.mark.parametrize(
    "body",
    [
        "r(){ local host=NODES; ssh $host x; }; r",
        "r(){ local host; host=NODES; inner; }; inner(){ ssh $host x; }; r",
        "host=NODES; r(){ local host=$host; ssh $host x; }; r",
        "host=NODES; r(){ local host=fe; }; r; ssh $host x",
        "r(){ local host; declare -g host; host=1; }; host=NODES; r; ssh $host x",
        "r(){ export host=NODES; }; r; ssh $host x",
        "while read host; do :; done < <(echo NODES); ssh $host x",
        "echo NODES | while read host; do ssh $host x; done",
        "shopt -s lastpipe; echo NODES | read host; ssh $host x",
        "declare host; host=NODES; ssh $host x",
    ],
)
def test_variable_that_gets_out(body: str) -> None:
    assert stale(body) == [1]


@pytest.mark.parametrize("shell", ["/bin/ksh", "/usr/bin/env zsh"])
def test_last_stage_of_other_shells(shell: str) -> None:
    assert stale("echo NODES | read host; ssh $host x", shell) == [1]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("srun --export=NONE python x.py", []),
        ("srun --export=PATH,HOME python x.py", []),
        ("srun --export=NONE bash -c 'ssh $MASTER_ADDR x'", []),
        ("srun --export=ALL,MASTER_ADDR=$(stepguard nodes --first) python x.py", []),
        ("srun --export=NONE,MASTER_ADDR=h python x.py", []),
        ("env -i PATH=/bin python x.py", []),
        ("env -u MASTER_ADDR python x.py", []),
        ("sbatch --export=NONE --wrap 'srun --auto-resume=1 python x.py'", []),
        ("srun --export=ALL,A=1 python x.py", [1]),
        ("srun --export=PATH,MASTER_ADDR python x.py", [1]),
        ("srun --export=$WHICH python x.py", [1]),
        ("env -i MASTER_ADDR=$MASTER_ADDR python x.py", [1]),
        ("env -u PATH python x.py; python y.py", [1]),
        ("env -i true; python x.py", [1]),
    ],
)
def test_variable_that_a_program_gets(start: str, expected: list[int]) -> None:
    assert stale(f"export MASTER_ADDR=NODES; {start}; unset MASTER_ADDR") == expected
