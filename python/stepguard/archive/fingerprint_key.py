# SPDX-License-Identifier: Apache-2.0
"""The secret that the fingerprints of redacted values are keyed with: the site's, the same on all nodes, or one of this
node's own, which tells equal values only among the records that it leads."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from stepguard import named_file
from stepguard.errors import ConfigError

_SIZE_BYTES = 32
_MIN_BYTES, _MAX_BYTES = 16, 4096
_MAKE = "(umask 077; head -c 32 /dev/urandom >FILE) makes one"


def site(site_file: str) -> bytes | None:
    """The site's key; None where there is none. Raises ConfigError."""
    if not site_file:
        return None
    where = f"[archive] fingerprint_key: {site_file}"
    try:
        with named_file.opened(Path(site_file)) as file:
            status = os.fstat(file)
            key = named_file.content(file, _MAX_BYTES)
    except OSError as error:
        raise ConfigError("cannot read the key", f"{where}: {error.strerror}", _MAKE) from error
    if status.st_mode & 0o077 or status.st_uid != os.geteuid():
        raise ConfigError("the key is not root's alone", where, "chown root, chmod 600")
    if len(key) < _MIN_BYTES:
        raise ConfigError(f"a key of {len(key)} bytes", where, _MAKE)
    return key


def own(path: Path, untold: Callable[[OSError], None]) -> bytes:
    """This node's key, which is made once; where it cannot be kept, `untold` hears why, and it lasts as long as we."""
    try:
        return _own(path)
    except OSError as error:
        untold(error)
        return secrets.token_bytes(_SIZE_BYTES)


def _own(path: Path) -> bytes:
    with contextlib.suppress(FileNotFoundError):
        return _read_own(path)
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_SIZE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    with contextlib.suppress(FileExistsError):
        path.hardlink_to(temporary)  # unlike a rename it never replaces a key
    temporary.unlink()
    return _read_own(path)


def _read_own(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) < _MIN_BYTES:
        raise OSError(
            errno.EINVAL, f"a key of {len(key)} bytes: the next start makes one where there is none", str(path)
        )
    return key
