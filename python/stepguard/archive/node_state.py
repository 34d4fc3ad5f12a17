# SPDX-License-Identifier: Apache-2.0
"""DIR/CLUSTER/health/NODE.json: what each node tells of its health, written by its own archiver alone, so that nobody
takes a lock. Only nodes that had trouble have a file; root and the administrators' group may read it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from stepguard.archive.layout import HEALTH, ClusterLayout, is_safe_name
from stepguard.archive.ownership import Ownership
from stepguard.archive.plain_files import read_plain
from stepguard.archive.store import Directory, Writer
from stepguard.errors import reason
from stepguard.records.node_state import MAX_BYTES, NodeState, from_json
from stepguard.records.shape import MalformedRecord

_SUFFIX = ".json"


class Told(NamedTuple):
    """A node's file: what it tells, or why it cannot be read."""

    path: Path
    state: NodeState | None
    why: str = ""


class Pending(NamedTuple):
    """What the agent has left in the spool, and which version of the file that was."""

    state: NodeState
    content: bytes
    version: tuple[int, int, int]


class Outgoing:
    """The file in the spool, which goes into the archive whenever it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._done: tuple[int, int, int] | None = None

    def pending(self) -> Pending | None:
        """What is not in the archive yet; None for nothing. Raises OSError, and MalformedRecord once a version."""
        try:
            status = self._path.stat()
            version = (status.st_ino, status.st_mtime_ns, status.st_size)  # each is a new file that was renamed
            if version == self._done:
                return None
            content = read_plain(self._path, MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        try:
            return Pending(from_json(content), content, version)
        except MalformedRecord:
            self._done = version
            raise

    def store(self, one: Pending, archive: Path, cluster: str, ownership: Ownership) -> None:
        """Puts it into the archive, synced. Raises OSError."""
        node = one.state.node
        if is_safe_name(cluster) and is_safe_name(node):
            name, writer = f"{node}{_SUFFIX}", Writer(node, ownership)
            with Directory.top(archive, writer) as top, top.made(cluster) as below, below.made(HEALTH) as health:
                if health.read(name, MAX_BYTES) != one.content:
                    health.write(name, one.content, os.geteuid())
                    health.sync()
        self._done = one.version


def told_by(cluster: ClusterLayout) -> Iterator[Told]:
    """What the nodes of a cluster have told, by name. Raises OSError where that cannot be listed."""
    try:
        paths = sorted(cluster.health.iterdir())
    except FileNotFoundError:
        return
    for path in paths:
        if not path.name.startswith("."):  # which is being written
            yield _told(path)


def _told(path: Path) -> Told:
    try:
        if not path.name.endswith(_SUFFIX) or not is_safe_name(node := path.name.removesuffix(_SUFFIX)):
            return Told(path, None, "not the name of a node's file")
        state = from_json(read_plain(path, MAX_BYTES + 1))
        if state.node != node:
            return Told(path, None, f"of the node {state.node!r}")
    except MalformedRecord as error:
        return Told(path, None, str(error))
    except OSError as error:
        return Told(path, None, "a link" if path.is_symlink() else reason(error))
    return Told(path, state)
