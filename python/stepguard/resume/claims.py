# SPDX-License-Identifier: Apache-2.0
"""Guarded steps side by side in one job do not take each other's spare.

Their supervisors run on one host (the batch host, or salloc's), so a locked file settles it: each writes which nodes
it uses. A claim whose supervisor has ended counts no more. The file lies beside the journal, where only the owner
can put anything in its way; where it cannot be used that is told, and the steps do without it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

_MAX_SIZE_BYTES = 1 << 20


def _start_time(pid: int) -> str:
    """When a process started, in clock ticks since boot (proc(5), stat field 22); "" when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


class Claims:
    """The claims of one job's supervisors on this host, in the file `path`; `tell` hears of trouble with it."""

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        self._path = path
        self._tell = tell
        self._me = f"{os.getpid()}:{_start_time(os.getpid())}"

    def claim(self, choose: Callable[[set[str]], Iterable[str]]) -> None:
        """Calls `choose` with the nodes that others use; what it returns is ours from now on. Others wait meanwhile."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked() as file:
                others = self._living(file.read(_MAX_SIZE_BYTES))
                mine = list(choose({node for nodes in others.values() for node in nodes}))
                file.truncate(0)
                file.write(json.dumps(others | {self._me: mine}).encode())
                if not others and not mine:
                    self._path.unlink()
        except OSError as error:
            self._tell(f"guarded steps of this job cannot agree on spares: {error}")
            choose(set())

    @contextlib.contextmanager
    def _locked(self) -> Iterator[IO[bytes]]:
        while True:
            # Not blocking, for it may be a pipe, which then fails to be read.
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(self._path, flags, 0o600), "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                # The last one to leave takes the file away, perhaps between our open and our lock.
                if self._path.exists() and self._path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    file.seek(0)
                    yield file
                    return

    def _living(self, content: bytes) -> dict[str, list[str]]:
        try:
            claims = json.loads(content)
            owners = {owner: owner.partition(":") for owner in claims}
            return {
                owner: [str(node) for node in claims[owner]]
                for owner, (pid, _, started) in owners.items()
                if owner != self._me and started and _start_time(int(pid)) == started
            }
        except (ValueError, TypeError, AttributeError):
            return {}  # damaged: nobody's claims

    def release(self) -> None:
        """Gives up what we claimed, and the file when nobody else uses it."""
        if self._path.exists():
            self.claim(lambda _: [])
