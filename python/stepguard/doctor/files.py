# SPDX-License-Identifier: Apache-2.0
"""May every user read a file, and nobody but its owner change it? By the modes alone, for root may all."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def unreadable(path: Path) -> str:
    """Why users other than its owner cannot read `path`, with the place that stops them; empty when they can."""
    try:
        for folder in _folders(path):
            if not folder.stat().st_mode & stat.S_IXOTH:
                return f"{folder} may not be entered by others (mode {_mode(folder)})"
        if not path.stat().st_mode & stat.S_IROTH:
            return f"{path} may not be read by others (mode {_mode(path)})"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return ""


def changeable(path: Path) -> str:
    """Who besides root and ourselves can change what stands at `path`; empty when nobody can.

    A folder that others may write to is enough, unless it is sticky: they could put another file there.
    """
    try:
        for place in (path, *_folders(path)):
            status = place.stat()
            if status.st_uid not in (0, os.geteuid()):
                return f"{place} belongs to user {status.st_uid}"
            sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
            if status.st_mode & stat.S_IWOTH and not sticky:
                return f"{place} may be written by everybody (mode {_mode(place)})"
            if status.st_mode & stat.S_IWGRP and status.st_gid != 0 and not sticky:
                return f"{place} may be written by group {status.st_gid} (mode {_mode(place)})"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return ""


def _folders(path: Path) -> list[Path]:
    """The folders that lead to the file itself, wherever links point."""
    return list(path.resolve().parents)


def _mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"
