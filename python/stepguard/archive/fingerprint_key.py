# SPDX-License-Identifier: Apache-2.0
"""The secret that the fingerprints of redacted values are keyed with: the site's, the same on all nodes, or one of this
node's own, which tells equal values only among the records that it leads."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from stepguard.errors import ConfigError

_SIZE_BYTES = 32
_MIN_BYTES = 16


def load(site_file: str, own_file: Path) -> bytes:
    """The site's key, or else this node's, which is made once. Raises ConfigError, for the node's own OSError."""
    if not site_file:
        return _own(own_file)
    where = f"[archive] fingerprint_key: {site_file}"
    try:
        with Path(site_file).open("rb") as file:
            status = os.fstat(file.fileno())
            key = file.read(4096)
    except OSError as error:
        raise ConfigError("cannot read the key", f"{where}: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077 or status.st_uid != os.geteuid():
        raise ConfigError("the key is not root's alone", where, "chown root, chmod 600")
    if len(key) < _MIN_BYTES:
        raise ConfigError(f"a key of {len(key)} bytes", where, "head -c 32 /dev/urandom makes one")
    return key


def _own(path: Path) -> bytes:
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(_SIZE_BYTES))
        file.flush()
        os.fsync(file.fileno())
    with contextlib.suppress(FileExistsError):
        path.hardlink_to(temporary)  # unlike a rename it never replaces a key
    temporary.unlink()
    return path.read_bytes()
