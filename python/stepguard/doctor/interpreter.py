# SPDX-License-Identifier: Apache-2.0
"""The installation's own Python, and whether the bridge brings the same one into srun."""

from __future__ import annotations

import json
import re
from pathlib import Path

from stepguard.doctor.elf import Library, NotElf
from stepguard.doctor.files import changeable, unreadable
from stepguard.doctor.plugin import BRIDGE
from stepguard.doctor.result import Result, fail, ok, warn
from stepguard.errors import ProcessError
from stepguard.process import Completed, run

CHECK = "python"
_TIMEOUT_S = 30.0
# What a guarded step imports, in srun and after it.
_ASK_PYTHON = """
import json, sys
import _cffi_backend, stepguard, stepguard.bridge, stepguard.resume.supervisor, stepguard.slurm.commands
print(json.dumps([sys.version.split()[0], sys.prefix, stepguard.__file__]))
"""
_ASK_LIBPYTHON = """
import ctypes, sys
get_version = ctypes.CDLL(sys.argv[1]).Py_GetVersion
get_version.restype = ctypes.c_char_p
print(get_version().decode().split()[0])
"""


def check_interpreter(prefix: Path) -> list[Result]:
    """PREFIX/venv as the supervisor starts it, and PREFIX/lib/stepguard/bridge.so as srun loads it."""
    python = prefix / "venv/bin/python"
    again = f"run `make install PREFIX={prefix}`"
    asked = _ask(python, _ASK_PYTHON)
    if isinstance(asked, str):
        return [fail(CHECK, f"{python} does not run: {asked}: guarded steps run unguarded", again)]
    if asked.status != 0:
        why = (asked.stderr.strip().splitlines() or [f"status {asked.status}"])[-1]
        return [fail(CHECK, f"{python} cannot import stepguard: {why}: guarded steps run unguarded", again)]
    version, its_prefix, package = json.loads(asked.stdout)
    results = []
    if Path(its_prefix) != prefix / "venv" or not Path(package).is_relative_to(prefix):
        results.append(fail(CHECK, f"{python} uses the packages of {its_prefix} ({package})", again))
    results += _permissions(python, Path(package))
    results += _judge_bridge(prefix / BRIDGE, python, version, again)
    return results or [ok(CHECK, f"{python} is {version}, and the bridge brings the same")]


def _permissions(python: Path, package: Path) -> list[Result]:
    results = []
    for path in (python, package):
        if reason := unreadable(path):
            results.append(fail(CHECK, f"users cannot use it: {reason}", "chmod -R a+rX it"))
        if reason := changeable(path):
            results.append(fail(CHECK, f"others can change what users run: {reason}", "let it belong to root alone"))
    return results


def _judge_bridge(bridge: Path, python: Path, version: str, again: str) -> list[Result]:
    try:
        library = Library.read(bridge)
    except (OSError, NotElf) as error:
        return [fail(CHECK, f"{bridge}: {error}: guarded steps run unguarded", again)]
    if reason := unreadable(bridge):
        return [fail(CHECK, f"users cannot load the bridge: {reason}", "chmod 0644 it")]
    names = [name for name in library.needed() if name.startswith("libpython")]
    if not names:
        return [fail(CHECK, f"{bridge} brings no libpython", again)]
    found = re.match(r"libpython(\d+\.\d+)", names[0])
    if found is None or not version.startswith(found[1] + "."):
        return [fail(CHECK, f"{bridge} was built for {names[0]}, and {python} is {version}", again)]
    libraries = [Path(folder) / names[0] for folder in library.search_path()]
    present = next((path for path in libraries if path.exists()), None)
    if present is None:
        where = " or ".join(map(str, libraries)) or names[0]
        return [
            fail(CHECK, f"the bridge needs {where}, which is not there", f"install libpython{found[1]}, or {again}")
        ]
    asked = _ask(python, _ASK_LIBPYTHON, str(present))
    if isinstance(asked, str) or asked.status != 0:
        return [fail(CHECK, f"{present} cannot be loaded", again)]
    if asked.stdout.strip() != version:
        found_text = f"{present} is Python {asked.stdout.strip()}, and {python} is {version}"
        return [warn(CHECK, found_text, f"update both from one source, or {again}")]
    return []


def _ask(python: Path, question: str, *arguments: str) -> Completed | str:
    """The answer of this Python, started isolated as the supervisor is, or why it could not be started."""
    try:
        return run([str(python), "-I", "-c", question, *arguments], timeout_s=_TIMEOUT_S, cwd=Path("/"))
    except ProcessError as error:
        return error.what
