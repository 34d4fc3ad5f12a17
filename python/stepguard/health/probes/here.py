# SPDX-License-Identifier: Apache-2.0
"""Whether there is anything for a probe to look at, told without a child: most nodes have few of all the devices."""

from __future__ import annotations

import os
from pathlib import Path

from stepguard.health.probes import pci
from stepguard.health.probes.files import Tree
from stepguard.health.probes.program import find
from stepguard.health.probes.settings import Settings
from stepguard.health.probes.table import Entry

# Where the dynamic loader looks before the directories (ld.so(8)), and more than its cache ever has.
_LOADER_PATH, _LOADER_CACHE, _CACHE_BYTES = "LD_LIBRARY_PATH", "/etc/ld.so.cache", 16 << 20


def is_here(entry: Entry, settings: Settings) -> bool:
    """Whether one of the things is there for which it is run, and none for which it is not."""
    tree = Tree(settings.root)
    wanted = not entry.only_where or any(_is_here(one, tree, settings) for one in entry.only_where)
    return wanted and not any(_is_here(one, tree, settings) for one in entry.not_where)


def _is_here(one: str, tree: Tree, settings: Settings) -> bool:
    """`pci:VENDOR`, `program:NAME`, `library:SONAME`, `device:NAME`, `setting:NAME` where that says something, or a
    path under the root."""
    kind, _, name = one.partition(":")
    if kind == "pci":
        return bool(pci.devices(tree, name))
    if kind == "program":
        return find(name) is not None
    if kind == "library":
        return _is_library(name, tree)
    if kind == "device":
        return Path(settings.dev, name).exists()
    if kind == "setting":
        return bool(getattr(settings, name))
    return tree.is_there(one)


def _is_library(name: str, tree: Tree) -> bool:
    """Whether the loader would find it."""
    directories = os.environ.get(_LOADER_PATH, "").replace(";", ":").split(":")
    if any(Path(directory, name).is_file() for directory in directories if directory):
        return True
    return f"\0{name}\0" in (tree.text(_LOADER_CACHE, _CACHE_BYTES) or "")
