# SPDX-License-Identifier: Apache-2.0
"""The process that a probe runs in, forked off by the forkserver: it prints the report as one JSON document.

What the libraries of a driver print goes to stderr.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import traceback
from typing import NoReturn

from stepguard.health.probe_request import Request
from stepguard.health.probes.document import to_document
from stepguard.health.probes.settings import Settings
from stepguard.health.probes.table import entry

OUTPUT = 3
"""What the report is written to; programs that a probe runs do not get it."""
# Whoever started it may be gone, and then nobody kills it at its deadline.
_GRACE_S = 1.0
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def run(request: Request, forkserver: int) -> NoReturn:
    """What a fresh fork does, to its end. `forkserver` is the pid of its parent."""
    status = 1
    try:
        os.setsid()
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() == forkserver:  # else it has ended before we asked to be told
            _take_descriptors(request)
            _report(request)
            status = 0
    except BaseException:  # noqa: BLE001 - told as Python does at its end
        traceback.print_exc()
    finally:
        # Neither threads that hang nor the end of a driver's library are waited for.
        os._exit(status)


def _take_descriptors(request: Request) -> None:
    """Leaves none of the forkserver's but its stdin, which is /dev/null."""
    os.dup2(request.errors, 1)
    os.dup2(request.errors, 2)
    os.dup2(request.output, OUTPUT)
    os.set_inheritable(OUTPUT, False)
    os.closerange(OUTPUT + 1, os.sysconf("SC_OPEN_MAX"))


def _report(request: Request) -> None:
    settings = Settings.from_text(request.settings)
    signal.setitimer(signal.ITIMER_REAL, settings.deadline_s + _GRACE_S)  # SIGALRM ends us, hung in a library or not
    report = importlib.import_module(entry(request.name).module).run(settings)
    with os.fdopen(OUTPUT, "w", encoding="utf-8") as file:
        file.write(json.dumps(to_document(report)))  # json.dump would take five times as long
