# SPDX-License-Identifier: Apache-2.0
"""The process that a probe runs in: `python -I -m stepguard.health.probe_child NAME SETTINGS`, started by probing.

It prints the report as one JSON document. What the libraries of a driver print goes to stderr.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys

from stepguard.health.probes.document import to_document
from stepguard.health.probes.settings import Settings
from stepguard.health.probes.table import entry

# Whoever started it may be gone, and then nobody kills it at its deadline.
_GRACE_S = 1.0


def main(name: str, settings_text: str) -> None:
    settings = Settings.from_text(settings_text)
    signal.setitimer(signal.ITIMER_REAL, settings.deadline_s + _GRACE_S)  # SIGALRM ends us, hung in a library or not
    output = os.dup(1)
    os.dup2(2, 1)
    report = importlib.import_module(entry(name).module).run(settings)
    with os.fdopen(output, "w", encoding="utf-8") as file:
        json.dump(to_document(report), file)
    # Neither threads that hang nor the end of a driver's library are waited for.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
