# SPDX-License-Identifier: Apache-2.0
"""Python programs, as far as the examples do not show it: order, calls, and the time that they take."""

from __future__ import annotations

import time

import pytest

from stepguard.scripts.check import check

HEAD = "import os, subprocess\nrank = os.environ['SLURM_PROCID']\n"
COUNT = "os.environ['SLURM_NNODES']"
NODES = "os.environ['SLURM_JOB_NODELIST']"


def lines(code: str) -> list[int]:
    """The lines below the head on which something stale is read."""
    report = check("entry.py", (HEAD + code).encode())
    assert report.parse == "ok"
    return [finding.line - 2 for finding in report.findings if finding.rule.kind == "stale-nodelist"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (f"def go(n):\n    os.system(f'torchrun --nnodes {{n}}')\ngo({COUNT})\ngo('1')\n", [3]),
        (f"def never_called():\n    os.system('torchrun --nnodes ' + {COUNT})\n", [2]),
        (f"def head():\n    if rank: return {NODES}\n    return 'a'\nos.environ['MASTER_ADDR'] = head()\n", [2]),
        (f"def set():\n    if rank:\n        os.environ['HOSTS'] = {NODES}\n        return\nset()\n", [3]),
        (f"words = []\ndef more(): words.append('-w' + {NODES})\nmore()\nsubprocess.run(['pdsh', *words])\n", [2]),
        (f"def go(h): subprocess.run(['ssh', h])\nThread(target=go, args=({NODES},))\n", [2]),
        (f"for name, value in {{'MASTER_ADDR': {NODES}, 'X': '1'}}.items(): os.environ[name] = value\n", [1]),
        (f"for name, value in {{'MASTER_ADDR': 'a', 'X': {NODES}}}.items(): os.environ[name] = value\n", []),
        (f"class A:\n  def __init__(self, n): self.n = n\nclass B(A): 0\nos.environ['NNODES'] = B({COUNT}).n\n", [4]),
        (f"os.environ['MASTER_ADDR'] = {NODES}\nos.environ['MASTER_ADDR'] = 'a'\n", []),
        (f"os.environ['MASTER_ADDR'] = {NODES}\nos._exit(0)\nos.environ['MASTER_ADDR'] = 'a'\n", [1]),
        (f"while not (n := {COUNT}): pass\nsubprocess.run(['torchrun', '--nnodes', n])\n", [1]),
        (f"try:\n    n = {COUNT}\nfinally:\n    pass\nos.environ['NNODES'] = n\n", [2]),
        (f"match rank:\n    case '0': n = '1'\n    case _: n = {COUNT}\nos.environ['NNODES'] = n\n", [3]),
        (f"n = {COUNT}\ndel n\nn = '1'\nos.environ['NNODES'] = n\n", []),
        (f"def f(n): return f(n) if n else n\nos.environ['NNODES'] = f({COUNT})\n", [2]),
        (f"asked = [h for h in {NODES}.split(',')]\nos.environ['WORLD_SIZE'] = str(len(asked))\n", [1]),
        (f"def add(words, n): words += ['--nnodes', n]\nc = ['torchrun']\nadd(c, {COUNT})\nsubprocess.run(c)\n", [3]),
        (f"c = ['torchrun', '--nnodes', {COUNT}]\nos.system(' '.join(map(str, c)))\n", [1]),
        (f"c = ['torchrun', '--nnodes', {COUNT}]\nos.system(' '.join(repr(word) for word in c))\n", [1]),
        ("def sh(c): subprocess.run(c)\n" + "sh('date')\n" * 99 + "sh('torchrun --nnodes $SLURM_NNODES')\n", [101]),
        (f"os.environ['MASTER_ADDR'] = {NODES}\nraise SystemExit(go())\n", [1]),
        (f"@option('-n', '--nodes', default={COUNT})\ndef go(nodes): os.system('torchrun --nnodes ' + nodes)\n", [1]),
        (f"lr = 0.1 * int({COUNT})\nsubprocess.run(['python', 'train.py', '--lr', str(lr)])\n", []),
        (f"dist.init_process_group('nccl', init_method='file:///runs/' + {COUNT})\n", []),
        (f"def go(n): os.system('torchrun --nnodes ' + n)\napp.run(go, {COUNT})\n", [2]),
        (f"prev = ''\nfor h in {NODES}.split():\n    subprocess.run(['ssh', prev])\n    prev = h\n", [2]),
        (f"for i in range(int({COUNT})):\n    subprocess.run(['ssh', f'node{{i}}'])\n", [1]),
        (f"for h in {NODES}.split(): pool.submit(subprocess.run, ['ssh', h])\n", [1]),
        (f"open('a', 'w').write({NODES})\nos.rename('a', 'b')\nos.system('mpirun -hostfile b ./x')\n", [1]),
        (f"subprocess.run(['tar', 'czf', 'a.tgz', {NODES}])\n", []),
        ("os.environ['HOSTS'] = 'a' if 'SLURM_JOB_NODELIST' in os.environ else 'b'\n", []),
    ],
)  # fmt: skip
def test_lines(code: str, expected: list[int]) -> None:
    assert lines(code) == expected


@pytest.mark.parametrize(
    "code",
    [
        f"x = [{COUNT}]\n" * 3500,
        f"x = y = {COUNT}\n" + "y = y + x\nx = x + y\n" * 1500,
        f"x = []\n{f'if rank: x.append({COUNT})' + chr(10)}" * 1500,
        "def f0(a): return a\n"
        + "".join(f"def f{i}(a): return f{i - 1}(a) + f{i - 1}(a)\n" for i in range(1, 40))
        + f"f39({COUNT})\n",
        "d = {" + ",".join(f"'k{i}': {COUNT}" for i in range(2500)) + "}\n" + "d['a'] = 1\n" * 500,
    ],
)
def test_time_is_bounded(code: str) -> None:
    began = time.process_time()
    check("entry.py", (HEAD + code).encode())
    assert time.process_time() - began < 2
