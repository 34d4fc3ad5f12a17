# SPDX-License-Identifier: Apache-2.0
"""The product, installed as an administrator would, for the lab to show at /opt/stepguard."""

from __future__ import annotations

import fcntl
import functools
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


@functools.cache
def installed() -> Path:
    """Builds and installs what is in the tree now; the directory that stands for /opt/stepguard."""
    build = REPOSITORY / "build"
    build.mkdir(exist_ok=True)
    with (build / "product.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["make", "--no-print-directory", "-C", str(REPOSITORY), "install", f"DESTDIR={build / 'product'}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"make install failed:\n{done.stdout}{done.stderr}"
    return build / "product" / "opt" / "stepguard"
