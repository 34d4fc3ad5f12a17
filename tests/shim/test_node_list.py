# SPDX-License-Identifier: Apache-2.0
"""Host lists in C are what slurm/hostlist.py reads in them, which live tests hold to scontrol."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from shim.compiling import compiled
from stepguard.errors import StepguardError
from stepguard.slurm.hostlist import expand

PIECES = [
    *"n0129[]-, ",
    "n[",
    "1-3",
    "01-02",
    "8-010",
    "],",
    "]",
    "a",
    "login",
    "[1-2]",
    "99999",
    "3-1",
    "\t",
    "é",
    "_.",
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Expands lists, under the sanitizers."""
    return compiled(tmp_path_factory.mktemp("node_list"), "expand_lists", ["node_list"])


def expand_in_c(program: Path, texts: list[str]) -> list[list[str] | None]:
    """The names of each list, None for what is none."""
    text = "".join(f"{text}\n" for text in texts)
    done = subprocess.run([str(program)], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == len(texts)
    return [None if "! " in line else line.split() for line in lines]


def expand_in_python(text: str) -> list[str] | None:
    try:
        return expand(text)
    except StepguardError:
        return None


def compare(program: Path, texts: list[str]) -> int:
    """Returns how many of them are lists."""
    found = expand_in_c(program, texts)
    for text, names in zip(texts, found, strict=True):
        assert names == expand_in_python(text), text
    return sum(names is not None for names in found)


def test_lists(program: Path) -> None:
    texts = ["n1", "n[01-03,7],login", "r[1-2]n[1-3]", "a[1-2]b[3-4]c[5-6]d[7-8]", "n[8-010]", "n[2,1],n1,,n1", "n1 n2"]
    texts += [
        "[1-3]",
        "n[1-2]3[4-5]",
        "n[000000000000000001-000000000000000003]",
        "n[999999999999999998-999999999999999999]",
    ]
    texts += ["", ",", "n[00-001]", "x[1-65536]", "x[1-256]y[1-256]"]
    assert compare(program, texts) == len(texts)


def test_what_is_no_list(program: Path) -> None:
    texts = ["n[1", "n[]", "n[1-]", "n[-1]", "n[3-1]", "n[1,]", "n[1-2]x", "n]", "n[[1]]", "n[1]]", "n[a]", "n[1 2]"]
    texts += [
        "x[1-65537]",
        "x[1-256]y[1-257]",
        "n[1-9999999999999999999]",
        "[",
        "]",
        "n[1][",
        "n[1--2]",
    ]
    assert compare(program, texts) == 0


def test_bounds_of_c_alone(program: Path) -> None:
    """Longer names and more brackets than any cluster has."""
    texts = ["n" * 255, "n" * 256, "n" * 255 + "[1-2]", "n" * 254 + "[9-10]", "n[1]" * 8, "n[1]" * 9, "x[1-65536],y"]
    names = expand_in_c(program, texts)
    assert names == [["n" * 255], None, None, None, ["n1" * 8], None, None]


def test_random_texts(program: Path) -> None:
    rng = random.Random(72)
    texts = ["".join(rng.choice(PIECES) for _ in range(rng.randint(1, 9))).strip("\n") for _ in range(10_000)]
    assert compare(program, texts) > 1000
