# SPDX-License-Identifier: Apache-2.0
"""A task that does what it is told.

    puppet.py DIRECTORY

In DIRECTORY: `puppet-ATTEMPT-RANK`, written at the start, with what the task sees; `order-RANK`, obeyed when it
appears: the status to exit with. SIGUSR1 is answered by `usr1-ATTEMPT-RANK`, SIGTERM obeyed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

RANK = os.environ["SLURM_PROCID"]
ATTEMPT = os.environ.get("STEPGUARD_ATTEMPT", "-")


def main() -> int:
    """Waits for its order."""
    directory = Path(sys.argv[1])
    signal.signal(signal.SIGUSR1, lambda *_: (directory / f"usr1-{ATTEMPT}-{RANK}").touch())
    line = sys.stdin.readline() if select.select([0], [], [], 1)[0] else ""
    nodes = subprocess.run(["/opt/stepguard/bin/stepguard", "nodes"], capture_output=True, text=True, check=False)
    print(f"rank {RANK} attempt {ATTEMPT}", flush=True)
    seen = {"host": os.uname().nodename, "stdin": line, "nodes": nodes.stdout.split(), "env": dict(os.environ)}
    temporary = directory / f".puppet-{ATTEMPT}-{RANK}"
    temporary.write_text(json.dumps(seen))
    temporary.rename(directory / f"puppet-{ATTEMPT}-{RANK}")
    order = directory / f"order-{RANK}"
    while not order.exists():
        time.sleep(0.05)
    return int(order.read_text())


if __name__ == "__main__":
    sys.exit(main())
