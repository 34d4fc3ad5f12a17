# SPDX-License-Identifier: Apache-2.0
"""Guarded steps side by side in one job do not take each other's spare.

Their supervisors run on one host (the batch host, or salloc's), so a locked file there settles it: each writes
which nodes it uses. A claim whose supervisor has ended counts no more.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from stepguard.errors import StepguardError

_MAX_SIZE_BYTES = 1 << 20


def _start_time(pid: int) -> str:
    """When a process started, in clock ticks since boot (proc(5), stat field 22); "" when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


class Claims:
    """The claims of one job's supervisors on this host."""

    def __init__(self, job_id: str, directory: Path | None = None) -> None:
        base = directory or Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp")
        self._directory = base / f"stepguard-{os.getuid()}"
        self._path = self._directory / f"{job_id}.claims"
        self._me = f"{os.getpid()}:{_start_time(os.getpid())}"

    def claim(self, choose: Callable[[set[str]], Iterable[str]]) -> None:
        """Calls `choose` with the nodes that others use; what it returns is ours from now on.

        Others wait meanwhile. Raises StepguardError when the directory is not ours alone.
        """
        self._check_directory()
        with self._locked() as file:
            others = self._living(file.read(_MAX_SIZE_BYTES))
            mine = list(choose({node for nodes in others.values() for node in nodes}))
            file.truncate(0)
            file.write(json.dumps(others | {self._me: mine}).encode())
            if not others and not mine:
                self._path.unlink()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[IO[bytes]]:
        while True:
            with self._path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                # The last one to leave takes the file away, perhaps between our open and our lock.
                if self._path.exists() and self._path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    file.seek(0)
                    yield file
                    return

    def _check_directory(self) -> None:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        status = self._directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise StepguardError("not a private directory of ours", str(self._directory), "remove it")

    def _living(self, content: bytes) -> dict[str, list[str]]:
        try:
            claims = json.loads(content)
        except ValueError:
            return {}
        living = {}
        for owner, nodes in claims.items():
            pid, _, started = owner.partition(":")
            if owner != self._me and started and _start_time(int(pid)) == started:
                living[owner] = [str(node) for node in nodes]
        return living

    def release(self) -> None:
        """Gives up what we claimed, and the file when nobody else uses it."""
        if self._path.exists():
            self.claim(lambda _: [])
