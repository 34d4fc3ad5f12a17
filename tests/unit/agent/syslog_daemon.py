# SPDX-License-Identifier: Apache-2.0
"""A syslog daemon that writes into its file, what rotates that, and an agent that reads it."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

from unit.agent.log_reader import BOOT, Read, Reader


class Syslog:
    """A daemon that writes into its file, and what rotates it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.open()

    def open(self) -> None:
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def writes(self, content: bytes) -> None:
        os.write(self._descriptor, content)

    def says(self, *texts: str, tag: str = "kernel", ago_s: float = 0.0) -> None:
        self.writes(b"".join(line(text, tag, ago_s) for text in texts))

    def rename(self, name: str = "kern.log.1") -> Path:
        """As logrotate does; the daemon goes on in the old file until it is told to open it anew."""
        self.path.rename(self.path.with_name(name))
        return self.path.with_name(name)

    def copy_truncate(self, name: str = "kern.log.1") -> None:
        shutil.copy(self.path, self.path.with_name(name))
        os.truncate(self.path, 0)


def line(text: str, tag: str = "kernel", ago_s: float = 0.0) -> bytes:
    when = time.strftime("%b %e %H:%M:%S", time.localtime(time.time() - ago_s))
    return f"{when} n1 {tag}: {text}\n".encode()


def again(reader: Reader, read: Read, boot_id: str = BOOT) -> Reader:
    """The next agent."""
    cursor = json.loads(json.dumps(reader.log.cursor()))
    reader.close()
    return read(reader.path, cursor=cursor, boot_id=boot_id)


def begun(daemon: Syslog, read: Read, *texts: str) -> Reader:
    """One that has read so far."""
    daemon.says(*texts)
    reader = read(daemon.path)
    reader.until(lambda: reader.texts == list(texts))
    reader.drain()
    return reader
