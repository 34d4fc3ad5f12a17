# SPDX-License-Identifier: Apache-2.0
"""The archive: is it there, can its owners get in, can nobody else write to it or exchange it, do the nodes share it?

Its file server may be away, and whoever touches it then sleeps, maybe beyond SIGKILL: another process looks at it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import stat
import sys
from pathlib import Path
from typing import Any

from stepguard.doctor.result import Result, fail, ok, unknown, warn
from stepguard.doctor.sharing import file_system, is_shared
from stepguard.errors import ProcessError
from stepguard.process import spawn

CHECK = "archive"
_TIMEOUT_S = 5.0
_LOOK = """
import json, os, pathlib, sys
from stepguard.places import parents_problem
path = pathlib.Path(sys.argv[1])
status = path.stat()
may = [os.access(path, os.W_OK), os.access(path, os.X_OK)]
print(json.dumps([status.st_mode, status.st_uid, *may, parents_problem(path)]))
"""
_MAKE = "install -d -m 0711 -o root {path}, on a file system that all nodes share"


def check_archive(path: Path, mounts: str, on_node: bool) -> list[Result]:
    """The archive as it is seen from this host; `on_node`: the archiver of this host writes to it."""
    looked = look(path)
    if looked is None:
        found = f"{path} does not answer within {_TIMEOUT_S:g} s: is its file server there?"
        return [warn(CHECK, found, "records wait in the nodes' spools; jobs do not notice")]
    if isinstance(looked, str):
        return [warn(CHECK, f"{path}: {looked}: records stay in the nodes' spools", _MAKE.format(path=path))]
    mode, uid, writable, enterable, problem = looked
    results = []
    if not stat.S_ISDIR(mode):
        return [fail(CHECK, f"{path} is no directory: records stay in the spools", "[archive] dir names another")]
    if uid != 0 or mode & (stat.S_IWGRP | stat.S_IWOTH):
        found = f"others than root may write to {path} (uid {uid}, mode {stat.S_IMODE(mode):04o}): nodes refuse it"
        results.append(fail(CHECK, found, "chown root, chmod 0711"))
    if problem:
        what, _, advice = problem.partition(": ")
        results.append(fail(CHECK, f"others may put another directory in the place of {path}: {what}", advice))
    if not mode & stat.S_IXOTH or not enterable:
        found = f"users cannot enter {path} (mode {stat.S_IMODE(mode):04o}), and so not read their records"
        results.append(warn(CHECK, found, "chmod 0711, and the same for the directories above it"))
    if on_node and os.geteuid() == 0 and not writable:
        found = f"root of this node cannot write to {path}: records stay in the spool"
        results.append(fail(CHECK, found, "mount it writable, and export it with no_root_squash"))
    return results or [_sharing(path, mounts)]


def _sharing(path: Path, mounts: str) -> Result:
    kind = file_system(path, mounts)
    if is_shared(kind):
        return ok(CHECK, f"{path} is on a shared file system ({kind})")
    found = f"{path} is on this host's own disk ({kind or 'unknown'}): each node then keeps the records of its own jobs"
    return unknown(CHECK, found, "[archive] dir: a directory that all nodes share")


def look(path: Path) -> tuple[int, int, bool, bool, str] | str | None:
    """Mode, owner, whether we may write to and enter it, and who could exchange it (places.parents_problem); why it
    cannot be looked at; None when nothing answers."""
    reading, writing = os.pipe()
    devnull = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        child = spawn([sys.executable, "-I", "-c", _LOOK, str(path)], stdin=devnull, stdout=writing, stderr=devnull)
    except ProcessError as error:
        os.close(reading)
        return error.what
    finally:
        os.close(writing)
        os.close(devnull)
    with os.fdopen(reading, "rb") as answer:
        if not select.select([child.pidfd], [], [], _TIMEOUT_S)[0]:
            child.send_signal(signal.SIGKILL)  # and not waited for: it may sleep for good
            return None
        if child.poll() != 0:
            return "missing, or not to be seen from here"
        found: Any = json.loads(answer.read())
    return found[0], found[1], found[2], found[3], found[4]
