# SPDX-License-Identifier: Apache-2.0
"""Whether there is anything for a probe to look at, told without a child: most nodes have few of all the devices."""

from __future__ import annotations

from collections.abc import Iterable

from stepguard.health.probes import pci
from stepguard.health.probes.files import Tree
from stepguard.health.probes.program import find


def is_here(wanted: Iterable[str], root: str) -> bool:
    """Whether one of these is there: a path under the root, `pci:VENDOR`, or `program:NAME`. All is, of none."""
    tree = Tree(root)
    wanted = tuple(wanted)
    return not wanted or any(_is_here(one, tree) for one in wanted)


def _is_here(one: str, tree: Tree) -> bool:
    kind, _, name = one.partition(":")
    if kind == "pci":
        return bool(pci.devices(tree, name))
    if kind == "program":
        return find(name) is not None
    return tree.is_there(one)
