# SPDX-License-Identifier: Apache-2.0
"""plugstack.conf: is stepguard's line there, once, and harmless?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from stepguard.doctor.files import changeable, unreadable
from stepguard.doctor.plugstack_file import Line, Stack, read
from stepguard.doctor.result import Result, fail, ok, unknown, warn

CHECK = "plugstack.conf"
# As in spank/settings.c; a test holds the two together.
ALLOWED = {"misplaced": ("reject", "warn"), "lint": ("warn", "reject", "off"), "on_broken": ("run", "refuse")}
_KNOWN = ", ".join([*(f"{key}={'|'.join(values)}" for key, values in ALLOWED.items()), "config=PATH"])


def slurm_conf(environment: Mapping[str, str], shown: Mapping[str, str]) -> Path | None:
    """The slurm.conf that programs on this host read, or None where they get it from slurmctld.

    The place compiled into Slurm cannot be asked for; `shown`, the controller's configuration, tells where its own
    file lies, and the programs of one build look in the same place.
    """
    if environment.get("SLURM_CONF"):
        return Path(environment["SLURM_CONF"])
    candidates = (shown.get("SLURM_CONF", ""), "/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf")
    return next((Path(name) for name in candidates if name and Path(name).exists()), None)


def locate(environment: Mapping[str, str], shown: Mapping[str, str]) -> Path | None:
    """The plugstack.conf of this host's programs: PlugStackConfig, else beside slurm.conf; None where it is unknown."""
    conf = slurm_conf(environment, shown)
    named = shown.get("PlugStackConfig", "")
    if not named and not shown and conf is not None:
        named = _named_in(conf)
    if named:
        return Path(named)
    return conf.parent / "plugstack.conf" if conf is not None else None


def _named_in(conf: Path) -> str:
    try:
        text = conf.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    found = re.search(r"^\s*PlugStackConfig\s*=\s*([^\s#]+)", text, re.MULTILINE | re.IGNORECASE)
    return found[1] if found else ""


def own_lines(stack: Stack) -> list[Line]:
    """The lines that name stepguard's plugin."""
    return [line for line in stack.lines if line.path.rpartition("/")[2] == "stepguard.so"]


def configured_path(lines: Iterable[Line]) -> Path | None:
    """The configuration file that the plugin names to the supervisor (config=PATH)."""
    values = [word.partition("=")[2] for line in lines for word in line.arguments if word.startswith("config=/")]
    return Path(values[-1]) if values else None


def check_plugstack(path: Path | None, prefix: Path | None, configless: bool) -> tuple[list[Result], list[Line]]:
    """The stack that begins at `path`, and stepguard's lines in it. `prefix`: this installation's."""
    if path is None:
        found = "programs on this host get it from slurmctld, so it cannot be read here"
        return [unknown(CHECK, found, "run this on the controller, too")], []
    stack = read(path)
    lines = own_lines(stack)
    results = [warn(CHECK, trouble, "correct it") for trouble in stack.troubles]
    for file in stack.files:
        if reason := unreadable(file):
            results.append(fail(CHECK, f"users' srun does not start: {reason}", f"chmod 0644 {file}"))
        if reason := changeable(file):
            found = f"others can have slurmd load their code as root: {reason}"
            results.append(fail(CHECK, found, "let it and its folders belong to root alone"))
    results += _includes(stack, configless)
    if not lines:
        wanted = f"optional {prefix or '/opt/stepguard'}/lib/slurm/stepguard.so"
        found = f"{path} does not name stepguard" if stack.files else f"there is no {path}"
        advice = f"add the line `{wanted}`; until then `stepguard supervise -- srun …` guards a step"
        return [*results, fail(CHECK, found, advice)], []
    for line in lines:
        results += _judge(line, prefix)
    if len(lines) > 1:
        places = ", ".join(line.place for line in lines)
        results.append(warn(CHECK, f"stepguard is named {len(lines)} times: {places}", "keep one of them"))
    return results or [ok(CHECK, f"{lines[0].place} names it, optional")], lines


def _includes(stack: Stack, configless: bool) -> list[Result]:
    """slurmctld ships an included file only when its name is written without a slash (configless, 20.02 to 26.05)."""
    return [
        warn(
            CHECK,
            f"{place} includes {pattern}, which slurmctld does not ship to hosts without configuration files",
            "write stepguard's line into plugstack.conf itself, or put the included files on every host",
        )
        for place, pattern, _ in stack.includes
        if configless and "/" in pattern
    ]


def _judge(line: Line, prefix: Path | None) -> list[Result]:
    results = []
    if line.required:
        found = (
            f"{line.place} says required: without the plugin, or with one built for another Slurm, no srun, sbatch or "
            "slurmd starts, and on 22.05 a batch job that starts on a node drains it"
        )
        results.append(warn(CHECK, found, "write optional: what was asked for and cannot be had is told either way"))
    if not line.path.startswith("/"):
        found = f"{line.place}: {line.path} is looked for in each host's PluginDir"
        results.append(warn(CHECK, found, "write the whole path"))
    elif prefix is not None and not _same(Path(line.path), prefix / "lib/slurm/stepguard.so"):
        found = f"{line.place} names {line.path}, and this is the stepguard in {prefix}"
        results.append(warn(CHECK, found, "run the doctor of that installation, or correct the line"))
    return results + [warn(CHECK, f"{line.place}: {wrong}", f"known: {_KNOWN}") for wrong in _wrong(line.arguments)]


def _same(one: Path, other: Path) -> bool:
    return one == other or (one.exists() and other.exists() and one.samefile(other))


def _wrong(arguments: Iterable[str]) -> list[str]:
    """What spank/settings.c complains of, with every srun, and goes on without."""
    wrong = []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if key == "config" and equals:
            if not value.startswith("/"):
                wrong.append(f"{argument}: not an absolute path")
        elif key not in ALLOWED:
            wrong.append(f"{argument}: unknown argument")
        elif value not in ALLOWED[key]:
            wrong.append(f"{argument}: not allowed")
    return wrong
