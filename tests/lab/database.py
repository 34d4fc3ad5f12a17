# SPDX-License-Identifier: Apache-2.0
"""The accounting database: MariaDB's options, and a template so that a lab need not make the tables anew.

Making MariaDB's system tables and Slurm's own takes seconds, copying them milliseconds.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

DATA = "/var/lib/lab-database"
"""The data directory, on the controller's host."""

CACHE = Path(__file__).parents[2] / "build" / "lab"

INSTALL_ARGV = [
    "mariadb-install-db",
    "--no-defaults",
    "--user=mysql",
    f"--datadir={DATA}",
    "--auth-root-authentication-method=normal",  # no password: its socket is all there is, on one host, in one lab
    "--skip-test-db",
]

SERVER_ARGV = [
    "mariadbd",
    "--no-defaults",
    "--user=mysql",
    f"--datadir={DATA}",
    "--socket=/run/mysqld/mysqld.sock",
    "--pid-file=/run/mysqld/mysqld.pid",
    "--skip-networking",
    "--skip-log-bin",
    "--performance-schema=OFF",
    "--innodb-buffer-pool-size=24M",
    "--innodb-autoextend-increment=1",
    "--innodb-temp-data-file-path=ibtmp1:1M:autoextend",
    "--innodb-log-file-size=4M",
    "--innodb-flush-log-at-trx-commit=0",
    "--skip-innodb-doublewrite",
]


def template(*facts: str) -> Path:
    """Where the template for these facts (releases, users) is kept once it is made."""
    key = repr((facts, INSTALL_ARGV, SERVER_ARGV))
    return CACHE / f"database-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def copy_to(target: Path, source: Path, uid: int, gid: int) -> None:
    """Copies a data directory, as the owner that the server wants."""
    shutil.copytree(source, target)
    for directory, _, files in os.walk(target):
        for path in (Path(directory), *(Path(directory, name) for name in files)):
            os.chown(path, uid, gid)


@contextmanager
def making(path: Path) -> Iterator[Callable[[Path], None] | None]:
    """Only one lab at a time makes a template: gives the function that keeps it, or None when it is there already."""
    if path.exists():
        yield None
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            yield None
            return

        def keep(source: Path) -> None:
            new = path.with_name(path.name + ".new")
            shutil.rmtree(new, ignore_errors=True)
            shutil.copytree(source, new)
            new.rename(path)

        yield keep
