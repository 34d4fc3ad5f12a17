# SPDX-License-Identifier: Apache-2.0
"""Files of sysfs and procfs. This is the only place that opens them, and it opens for reading alone: counters of AWS
Neuron are cleared by whatever is written to them, and a device is reset so.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from itertools import islice
from pathlib import Path

from stepguard.health.tools.conclusion import printable

# An attribute of sysfs is at most a page.
ATTRIBUTE_BYTES = 4096
_MAX_NAMES = 65_536
_MAX_ERROR_CHARS = 200
_NUMBER = re.compile(r"[-+]?\d{1,20}")
# What is not there, a process that has ended, and what a driver says of an attribute that the device does not have.
_NOT_TOLD = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ESRCH, errno.ENODEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENODATA}
)


class Tree:
    """What lies under `root`. None is what is not told; `errors`: path → why it could not be read."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self.errors: dict[str, str] = {}

    def text(self, path: str, limit: int = ATTRIBUTE_BYTES) -> str | None:
        """The file without white space around it, at most `limit` bytes; larger ones, and what is no file, are errors.

        Never waits for somebody who writes: a pipe is opened at once, and is no file.
        """
        try:
            descriptor = os.open(self.root + path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            self._failed(path, error)
            return None
        try:
            content = _content(descriptor, limit)
        except OSError as error:
            self._failed(path, error)
            return None
        finally:
            os.close(descriptor)
        if content is None or len(content) > limit:
            self.error(path, "not a file" if content is None else f"larger than {limit} bytes")
            return None
        return content.decode(errors="replace").strip()

    def number(self, path: str) -> int | None:
        """The whole number in a file; what else stands there is an error, but for "N/A"."""
        text = self.text(path)
        if not text or text.startswith("N/A"):
            return None
        if not _NUMBER.fullmatch(text):
            self.error(path, f"no number: {printable(text, 40)}")
            return None
        return int(text)

    def names(self, path: str) -> list[str]:
        """The names in a directory, in order; none where there is no such directory."""
        try:
            with os.scandir(self.root + path) as entries:
                return sorted(entry.name for entry in islice(entries, _MAX_NAMES))
        except OSError as error:
            self._failed(path, error)
            return []

    def directories(self, path: str) -> list[str]:
        """The same of true directories in it: links of sysfs lead around in circles."""
        try:
            with os.scandir(self.root + path) as entries:
                found = islice(entries, _MAX_NAMES)
                return sorted(entry.name for entry in found if entry.is_dir(follow_symlinks=False))
        except OSError as error:
            self._failed(path, error)
            return []

    def is_there(self, path: str) -> bool:
        """Whether there is such a thing, as far as we may see. Not for what may be on a server: it waits for that."""
        try:
            Path(self.root + path).stat()
        except OSError:
            return False
        return True

    def error(self, path: str, why: str) -> None:
        """Takes down why something could not be read."""
        self.errors[path] = printable(why, _MAX_ERROR_CHARS)

    def _failed(self, path: str, error: OSError) -> None:
        if error.errno not in _NOT_TOLD:
            self.error(path, error.strerror or str(error))


def _content(descriptor: int, limit: int) -> bytes | None:
    """What a file holds, and a byte more than the limit where that is more; None where it is no file."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return None
    content = b""
    while len(content) <= limit and (part := os.read(descriptor, limit + 1 - len(content))):
        content += part
    return content
