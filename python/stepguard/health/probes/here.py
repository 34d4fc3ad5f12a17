# SPDX-License-Identifier: Apache-2.0
"""Whether there is anything for a probe to look at, told without a child: most nodes have few of all the devices."""

from __future__ import annotations

from stepguard.health.probes import pci
from stepguard.health.probes.files import Tree
from stepguard.health.probes.program import find
from stepguard.health.probes.table import Entry

# What the dynamic loader looks into before the directories (ld.so(8)), and more than it ever has.
_LOADER_CACHE, _CACHE_BYTES = "/etc/ld.so.cache", 16 << 20


def is_here(entry: Entry, root: str) -> bool:
    """Whether one of the things is there for which it is run, and none for which it is not."""
    tree = Tree(root)
    wanted = not entry.only_where or any(_is_here(one, tree) for one in entry.only_where)
    return wanted and not any(_is_here(one, tree) for one in entry.not_where)


def _is_here(one: str, tree: Tree) -> bool:
    """`pci:VENDOR`, `program:NAME`, `library:SONAME`, or a path under the root."""
    kind, _, name = one.partition(":")
    if kind == "pci":
        return bool(pci.devices(tree, name))
    if kind == "program":
        return find(name) is not None
    if kind == "library":
        return f"\0{name}\0" in (tree.text(_LOADER_CACHE, _CACHE_BYTES) or "")
    return tree.is_there(one)
