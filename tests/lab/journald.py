# SPDX-License-Identifier: Apache-2.0
"""A systemd-journald that hears a kernel of ours: the real one, in a mount namespace of its own, with a FIFO for
/dev/kmsg.

with Journald(directory) as journald:
    journald.says("NVRM: …")                            in words of the kernel's, one record after the other
    journald.ctl("--vacuum-files=1")                    any journalctl
    path = journald.on_path()                           a directory with a journalctl that reads its files
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import termios
import time
from pathlib import Path
from types import TracebackType

PROGRAM = Path("/lib/systemd/systemd-journald")
_BEGIN = """
set -e
mount -t tmpfs none /run
mkdir -p /run/systemd /run/log/journal
mount --bind "$1/journal" /run/log/journal
mount -t tmpfs none /var/log
mount --bind "$1/kmsg" /dev/kmsg
exec "$2"
"""
_ERROR = 3
_DEADLINE_S = 20.0


class KmsgPipe:
    """A FIFO for /dev/kmsg, which is made: for a reader that waits for lines, as journald does."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._sequence = 0

    def says(self, *texts: str, priority: int = _ERROR) -> None:
        """`priority` 8 and above is not the kernel's. Waits until it is read: of a FIFO a read takes all that there is,
        which journald takes for one record."""
        for text in texts:
            self._sequence += 1
            record = f"{priority},{self._sequence},{int(time.monotonic() * 1e6)},-;{text}\n"
            os.write(self._descriptor, record.encode("utf-8", "surrogateescape"))
            self._await_empty()

    def close(self) -> None:
        os.close(self._descriptor)

    def _await_empty(self) -> None:
        end_s = time.monotonic() + _DEADLINE_S
        while struct.unpack("i", fcntl.ioctl(self._descriptor, termios.FIONREAD, bytes(4)))[0]:
            assert time.monotonic() < end_s, "nobody reads it"
            time.sleep(0.005)


class Journald:
    """In a directory of its own, which is made."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        (directory / "journal").mkdir()
        self._directory = directory
        self._kmsg = KmsgPipe(directory / "kmsg")
        self.says = self._kmsg.says
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Journald:
        argv = ["unshare", "--mount", "--propagation=private", "sh", "-c", _BEGIN, "sh"]
        argv += [str(self._directory), str(PROGRAM)]
        self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(_DEADLINE_S)
        self._kmsg.close()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def ctl(self, *words: str) -> str:
        """What journalctl says in its namespace."""
        assert self._process is not None
        argv = ["nsenter", f"--target={self._process.pid}", "--mount", "journalctl", *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=_DEADLINE_S).stdout

    def on_path(self) -> Path:
        """A directory for PATH with a journalctl that reads what this journald writes."""
        made = self._directory / "bin"
        made.mkdir(exist_ok=True)
        program = made / "journalctl"
        program.write_text(f'#!/bin/sh\nexec /usr/bin/journalctl --directory="{self._directory}/journal" "$@"\n')
        program.chmod(0o755)
        return made
