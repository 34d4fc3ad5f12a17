# SPDX-License-Identifier: Apache-2.0
"""Host lists and srun's options are as Slurm itself reads them, and `stepguard nodes` tells the truth in a job."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from guarded import until
from lab.cluster import Cluster
from lab.roots import product
from stepguard.slurm.hostlist import expand, fold
from stepguard.slurm.srun_options import ALIASES, OPTIONS

pytestmark = [pytest.mark.live, pytest.mark.timeout(150)]

EXPRESSIONS = [
    *("n1", "login,n[1-3]", "n[001-010]", "n[09-11]", "n[8-010]", "n[01-2]", "n[2,1]", "n[1-2,1]", "n1,n1", "n1,,n2"),
    *("r[1-2]n[1-3]", "r[01-02]n[3,1]", "n[1-2]3[4-5]", "n[1-2][3-4]", "a-b-[1-2]", "[1-3]", "N[1-2],n[1-2]", "n[5-5]"),
    *(
        "n[1-2]a[1-2]b[1-2]",
        "a[1-2]b[3-4]c[5-6]d[7-8]",
        "x,y[2-3],z9",
        "n[00-001]",
        "n[1-200]",
        "n1 n2",
        "a[1,3-4]b[2]",
    ),
    "",
]


def scontrol(lab: Cluster, verb: str, texts: list[str]) -> list[str]:
    """What `scontrol show VERB` prints on each text, lines joined by blanks."""
    script = 'for text; do scontrol show "$VERB" "$text" | tr "\\n" " "; echo; done'
    done = lab.run(["bash", "-c", script, "bash", *texts], env={"VERB": verb})
    return [line.strip() for line in done.stdout.splitlines()]


def test_expand_is_that_of_slurm(lab: Cluster) -> None:
    assert [" ".join(expand(text)) for text in EXPRESSIONS] == scontrol(lab, "hostnames", EXPRESSIONS)


def test_fold_is_that_of_slurm(lab: Cluster) -> None:
    rng = random.Random(71)
    lists = [expand(text) for text in EXPRESSIONS if text]
    prefixes = ["n", "n0", "r1n", "r2n", "a-", "login", "n1-x", ""]
    for _ in range(60):
        count = rng.randint(1, 12)
        lists.append([f"{rng.choice(prefixes[:3])}{rng.randint(0, 12)}" for _ in range(count)])
        lists.append(
            [f"{rng.choice(prefixes)}{rng.choice(['', '1', '02', '03', '3', '9', '10'])}" for _ in range(count)]
        )
    lists = [[name for name in names if name] for names in lists]
    texts = [",".join(names) for names in lists if names]
    assert [fold(names) for names in lists if names] == scontrol(lab, "hostlist", texts)


def test_options_are_those_of_srun(lab: Cluster) -> None:
    """Each option of the table, asked of getopt in srun: does it exist, and does it take a value?"""
    names = [name for name in OPTIONS if name not in ("auto-resume", "help", "usage", "version", "autocomplete")]
    script = 'for name; do echo "$name: $(srun --$name 2>&1 | head -1): $(srun --$name=x 2>&1 | head -1)"; done'
    said = lab.run(["bash", "-c", script, "bash", *names], timeout_s=120).stdout
    found = {}
    for line in said.splitlines():
        name, _, answers = line.partition(": ")
        complaint = re.search(r"option '--([\w-]+)' (requires|doesn't allow) an argument", answers)
        if "unrecognized option" in answers or "is ambiguous" in answers or (complaint and complaint[1] != name):
            continue  # of another release; here it may be the beginning of another option
        found[name] = {"requires": ":", "doesn't allow": ""}[complaint[2]] if complaint else "::"
    assert len(found) > 100
    for name, kind in found.items():
        table = OPTIONS[name].lstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
        # An argument that is optional in one release may be none in another: both take no further word.
        assert (table == ":") == (kind == ":"), name
    assert set(ALIASES) <= set(OPTIONS)


def test_help_of_srun_names_no_other_option(lab: Cluster) -> None:
    text = lab.run(["srun", "--help"]).stdout
    names = set(re.findall(r"^ {2,6}(?:-\w, )?--([a-z][\w-]*)", text, re.MULTILINE))
    assert names - set(OPTIONS) == set()


@pytest.fixture(scope="module")
def with_product() -> Iterator[Cluster]:
    with Cluster(nodes=4, prefix=product()) as cluster:
        yield cluster


def test_nodes_in_a_job_that_lost_one(with_product: Cluster) -> None:
    lab = with_product
    script = """#!/bin/bash
nodes() { /opt/stepguard/bin/stepguard nodes "$@" | tr '\\n' ' '; }
cd "$HOME/work"
echo "before: $(nodes)"
touch ready
while [ ! -e shrunk ]; do sleep 0.1; done
echo "stale: $SLURM_JOB_NODELIST"
echo "after: $(nodes)"
echo "first: $(nodes --first) count: $(nodes --count) list: $(nodes --list)"
echo "address: $(nodes --first --addr)"
export -f nodes
echo "step: $(srun -N1 -n1 -w n3 bash -c 'nodes; nodes --job-nodes --list')"
srun -N1 -n1 -w n3 sbatch --wait -Q -N1 -w n4 -o inner --wrap "/opt/stepguard/bin/stepguard nodes"
cat inner
"""
    (lab.home() / "work").mkdir()
    lab.write("work/job.sh", script, mode=0o755)
    lab.run(["chown", "alice", str(lab.home() / "work")], user="root")
    out = lab.home() / "out"
    job_id = lab.run(["sbatch", "--parsable", "-N3", "--exclusive", f"--output={out}", "work/job.sh"]).stdout.strip()
    until("the job runs", (lab.home() / "work" / "ready").exists, 30)
    lab.run(["scontrol", "update", f"JobId={job_id}", "NodeList=n1,n3"], host="ctl", user="root")
    lab.run(["touch", str(lab.home() / "work" / "shrunk")])
    until("the job ends", lambda: not lab.run(["squeue", "-h", "-j", job_id], check=False).stdout, 60)
    address = lab.run(["scontrol", "show", "node", "n1"]).stdout.split("NodeAddr=")[1].split()[0]
    assert out.read_text().splitlines() == [
        "before: n1 n2 n3 ",
        "stale: n[1-3]",
        "after: n1 n3 ",
        "first: n1  count: 2  list: n[1,3] ",
        f"address: {address} ",
        "step: n3 n[1,3] ",
        "n4",
    ]
    assert not list((lab.home() / "work").glob("slurm_job_*"))
    lab.run(["/opt/stepguard/bin/stepguard", "nodes", "--job", job_id], check=False)
