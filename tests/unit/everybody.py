# SPDX-License-Identifier: Apache-2.0
"""For tests that become another user, whom pytest lets into no folder, and Debian 13 into no checkout below /root."""

from __future__ import annotations

from pathlib import Path

# For the beginning of a program that gives up its rights: all that could be loaded later.
LOAD_ALL = """
import contextlib, importlib, pkgutil, stepguard
for module in pkgutil.walk_packages(stepguard.__path__, "stepguard."):
    with contextlib.suppress(ModuleNotFoundError):  # pyslurm
        importlib.import_module(module.name)
"""


def let_in(folder: Path) -> None:
    """Opens the folder, and those above it that belong to the same user, but not / and /tmp."""
    owner = folder.stat().st_uid
    for path in (folder, *folder.parents):
        if path.stat().st_uid == owner and path not in (Path("/"), Path("/tmp")):
            path.chmod(0o755)
