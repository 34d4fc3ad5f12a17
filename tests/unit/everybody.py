# SPDX-License-Identifier: Apache-2.0
"""Lets everybody into a test's own folder, as into an installation's; pytest lets nobody in."""

from __future__ import annotations

from pathlib import Path


def let_in(folder: Path) -> None:
    """Opens the folder, and those above it that belong to the same user, but not / and /tmp."""
    owner = folder.stat().st_uid
    for path in (folder, *folder.parents):
        if path.stat().st_uid == owner and path not in (Path("/"), Path("/tmp")):
            path.chmod(0o755)
