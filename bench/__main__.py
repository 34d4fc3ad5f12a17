# SPDX-License-Identifier: Apache-2.0
"""`python -m bench`, as root, with tests/ on PYTHONPATH: `make bench` sees to that.

Exit status 0: all parts ran, whether budgets are met or not. 1: a part did not run; the others are shown all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from bench import agent, environment, health, hooks, instructions, recovery, scale, scripts, start, submission, wall
from bench.site import REPOSITORY, Site
from bench.table import Row, table
from lab import LabError
from lab.roots import product

_PARTS = {
    "instructions": instructions.measure,
    "wall": wall.measure,
    "submission": submission.measure,
    "start": start.measure,
    "recovery": recovery.measure,
    "scale": scale.measure,
    "hooks": hooks.measure,
    "agent": agent.measure,
    "health": health.measure,
    "scripts": scripts.measure,
}
# Minutes long: only where the command line names it.
_LONG_PARTS = {"requeue": recovery.measure_requeue}
_ALL_PARTS = {**_PARTS, **_LONG_PARTS}


def main(arguments: list[str] | None = None) -> int:
    """Measures what the command line says, prints the table and writes the JSON; the exit status."""
    options = _parser().parse_args(arguments)
    if os.geteuid() != 0:
        print("bench: the lab makes namespaces and mounts: run this as root", file=sys.stderr)
        return 1
    facts = environment.describe()
    print(environment.line(facts), flush=True)
    site = Site(product(), options.rounds, options.quick)
    rows: list[Row] = []
    failed: dict[str, str] = {}
    for part in options.only or _PARTS:
        began_s = time.monotonic()
        try:
            rows += _ALL_PARTS[part](site)
        except (LabError, OSError, AssertionError) as error:  # the last is how the live tests' helpers say it
            failed[part] = str(error)
            print("\n".join([f"bench: {part} did not run: {error}", *getattr(error, "__notes__", [])]), file=sys.stderr)
        print(f"{part}: {time.monotonic() - began_s:.0f} s", file=sys.stderr, flush=True)
    print(table(rows))
    _write(
        options.json, {"schema": 1, "environment": facts, "rows": [row.as_record() for row in rows], "failed": failed}
    )
    print(f"\n{_verdict(rows)}. All samples: {options.json}")
    return 1 if failed else 0


def _verdict(rows: list[Row]) -> str:
    missed = [f"{row.part}: {row.what}" for row in rows if row.met is False]
    judged = sum(row.met is not None for row in rows)
    return f"{judged - len(missed)} of {judged} budgets met" + (f"; missed: {', '.join(missed)}" if missed else "")


def _write(path: Path, document: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures stepguard against its budgets.")
    parser.add_argument(
        "--only",
        action="append",
        choices=_ALL_PARTS,
        metavar="PART",
        help=f"one of {', '.join(_PARTS)}; or {', '.join(_LONG_PARTS)}, which takes long; may be repeated",
    )
    parser.add_argument("--rounds", type=_positive, metavar="N", help="rounds of every part")
    parser.add_argument("--quick", action="store_true", help="few rounds and a small cluster: does it run at all?")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        default=REPOSITORY / "build" / "bench.json",
        help="default: build/bench.json",
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


if __name__ == "__main__":
    sys.exit(main())
