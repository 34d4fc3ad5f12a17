# SPDX-License-Identifier: Apache-2.0
"""slurmd's hooks: does slurm.conf name them, and are the programs there, for root to run?

Not to be named is no fault: the record of a job then lacks what only they tell. Slurm's configuration names a program,
several, or a pattern of files; a script of the site's that starts ours cannot be told from another.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from pathlib import Path

from stepguard.doctor.elf import Library, NotElf
from stepguard.doctor.files import changeable
from stepguard.doctor.result import Result, fail, ok, warn
from stepguard.records import wire

CHECK = "hooks"
LIBEXEC = Path("libexec/stepguard")
PROGRAMS = ("prolog", "epilog", "health_check", "read_as")
# Parameter of slurm.conf → our program.
_HOOKS = {"Prolog": "prolog", "Epilog": "epilog", "HealthCheckProgram": "health_check"}
# Alloc, and the flags that imply it (slurm.conf(5), 22.05 to 26.05).
_AT_ALLOCATION = {"ALLOC", "CONTAIN", "NOHOLD", "X11", "RUNINJOB", "FORCEREQUEUEONFAIL", "DEFERBATCH"}
EXAMPLE = Path("share/stepguard/slurm-conf-examples/prolog-epilog.conf")


def named(shown: Mapping[str, str], prefix: Path) -> dict[str, str]:
    """The hooks that slurm.conf has, by parameter, and what it says; only those that are ours.

    `shown` is `scontrol show config`: one line with several programs, or from 24.11 on a line for each (`Prolog[0]`).
    """
    found = {}
    for parameter, program in _HOOKS.items():
        for text in _values(shown, parameter):
            if _is_ours(text, prefix / LIBEXEC / program):
                found[parameter] = text
    return found


def check_hooks(shown: Mapping[str, str], prefix: Path) -> list[Result]:
    """slurm.conf's hooks and the programs of the installation at `prefix`."""
    ours = named(shown, prefix)
    results = _programs(prefix, ours) + _strangers(ours, prefix)
    missing = [parameter for parameter in ("Prolog", "Epilog") if parameter not in ours]
    if missing:
        others = [f"{parameter}={text}" for parameter in missing for text in _values(shown, parameter)]
        instead = f" ({', '.join(others)})" if others else ""
        found = f"slurm.conf names no {' and no '.join(missing)} of stepguard's{instead}: records lack what it tells"
        results.append(ok(CHECK, found, f"to have it: {prefix / EXAMPLE}"))
    elif not results:
        alloc = {flag.strip().upper() for flag in shown.get("PrologFlags", "").split(",")} & _AT_ALLOCATION
        when = "as the job starts" if alloc else "with the first step there (PrologFlags has no Alloc)"
        found = f"{', '.join(ours)} tell the agent of jobs; a node's part of a record begins {when}"
        results.append(ok(CHECK, found))
    return results


def _values(shown: Mapping[str, str], parameter: str) -> list[str]:
    lines = [text for name, text in shown.items() if re.fullmatch(rf"{parameter}(\[\d+\])?", name)]
    return [text.strip() for line in lines for text in line.split(",") if text.strip()]


def _is_ours(text: str, program: Path) -> bool:
    """Whether a path or a pattern of slurm.conf names this program, or a link to it."""
    if Path(text).name == program.name and Path(text).parent.parts[-2:] == LIBEXEC.parts:
        return True
    paths = [Path(name) for name in glob.glob(text)]  # noqa: PTH207 - absolute
    return any(path.resolve() == program.resolve() for path in paths)


def _strangers(ours: Mapping[str, str], prefix: Path) -> list[Result]:
    """Hooks of another installation, which may be another release."""
    return [
        warn(CHECK, f"{parameter}={text} is not of the stepguard in {prefix}", "run the doctor of that installation")
        for parameter, text in ours.items()
        if not glob.has_magic(text) and not os.path.realpath(text).startswith(f"{os.path.realpath(prefix)}/")
    ]


def _programs(prefix: Path, ours: Mapping[str, str]) -> list[Result]:
    install = f"run `make install PREFIX={prefix}`"
    results = []
    for name in PROGRAMS:
        path = prefix / LIBEXEC / name
        if why := _broken(path, name):
            uses = [f"{parameter}={text}" for parameter, text in ours.items() if _HOOKS[parameter] == name]
            results.append((fail if uses else warn)(CHECK, ": ".join([f"{path}: {why}", *uses]), install))
        elif reason := changeable(path):
            results.append(
                fail(CHECK, f"others can replace what slurmd runs as root: {reason}", "let it belong to root alone")
            )
    return results


def _broken(path: Path, name: str) -> str:
    """Why it cannot do its work; "" when it can, as far as can be seen without running it."""
    try:
        machine = Library.read(path).machine
        if machine != Library.read(Path("/proc/self/exe")).machine:
            return "built for another processor"
        if name != "read_as" and wire.MAGIC not in path.read_bytes():
            return "of a release that speaks other messages than this one"
        return "" if os.access(path, os.X_OK) else "not executable"
    except FileNotFoundError:
        return "missing"
    except (OSError, NotElf) as error:
        return str(error)
