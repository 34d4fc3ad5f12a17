# SPDX-License-Identifier: Apache-2.0
"""Reading job scripts: each script of the tests' corpus in one process, and one script from the shell."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from bench.budgets import CHECK_SCRIPT_MS, CHECKED_SCRIPT_MS
from bench.figures import figure
from bench.paired import Variant, run_rounds
from bench.site import COMMAND, PYTHON, REPOSITORY, Site
from bench.table import Row
from lab import Cluster

_PART = "job scripts"
_PROGRAM = Path(__file__).with_name("programs") / "check_scripts.py"
_CORPUS = REPOSITORY / "tests/data/scripts"
# Clean, so that its exit status is 0, and longer than most: 90 lines.
_TYPICAL = "long-clean-production.sbatch"


def measure(site: Site) -> Iterable[Row]:
    """The rows of this part."""
    with site.lab(1) as lab:
        directory = lab.shared / "scripts"
        directory.mkdir(mode=0o755)
        for path in _CORPUS.iterdir():
            if not path.name.startswith(".") and not path.name.endswith(".expected.json"):
                (directory / path.name).write_bytes(path.read_bytes())
        yield _in_process(lab, directory, site.rounds(20, 3))
        yield from _from_the_shell(lab, directory / _TYPICAL, site.rounds(40, 4))


def _in_process(lab: Cluster, directory: Path, rounds: int) -> Row:
    program = lab.write(lab.shared / "check_scripts.py", _PROGRAM.read_text(), user="root")
    argv = [PYTHON, "-I", str(program), str(directory), str(rounds)]
    taken_ms = json.loads(lab.run(argv, user="root", timeout_s=300).stdout)
    return Row(_PART, f"{len(taken_ms)} scripts in one process, each", "ms", figure(taken_ms), None, CHECKED_SCRIPT_MS)


def _from_the_shell(lab: Cluster, script: Path, rounds: int) -> Iterable[Row]:
    variants = [
        Variant("check-script", [COMMAND, "check-script", str(script)]),
        Variant("version", [COMMAND, "--version"]),
        Variant("python", [PYTHON, "-IS", "-c", "pass"]),
    ]
    taken = run_rounds(lab, variants, rounds, user="alice")
    python = taken.wall_ms("python")
    yield Row(
        _PART, "check-script of one file from the shell", "ms", taken.wall_ms("check-script"), python, CHECK_SCRIPT_MS
    )
    yield Row(_PART, "  its CPU time", "ms", taken.cpu_ms("check-script"), taken.cpu_ms("python"))
    yield Row(_PART, "  alone: stepguard --version", "ms", taken.wall_ms("version"), python)
    yield Row(_PART, "  alone: python -IS -c pass", "ms", python)
