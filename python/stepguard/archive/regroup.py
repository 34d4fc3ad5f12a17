# SPDX-License-Identifier: Apache-2.0
"""Groups and modes of all that lies in the archive, as `[archive] admin_groups` asks for now: what was written before
it was switched on (or off, or to another group) is made readable to the group (or to the owner alone) afterwards.

Writers do so with the directories on their way (store); this does it with all records and scripts. The index is put
right by whoever opens it (index). What stayed root's, for its owner's quota was used up, is given to its owner. All
names here are root's, so a file is the one that was put there, whatever its owner may have made of it.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from stepguard.archive.index_bounds import Tell, say_nothing
from stepguard.archive.layout import HEALTH, MANIFEST, NODES, SCRIPTS, RecordName
from stepguard.archive.ownership import Ownership
from stepguard.archive.place import manifest_in
from stepguard.archive.store import Directory, Writer
from stepguard.errors import reason

_OURS = re.compile(rf"[0-9]{{4}}|{SCRIPTS}|{HEALTH}", re.ASCII)


def regroup(cluster_dir: Path, ownership: Ownership, trouble: Tell = say_nothing) -> int:
    """Puts a cluster's records and scripts right; of how many files that was needed. What cannot be is a trouble, and
    passed over with all that is in it: a directory that others than root may write to may hold anything."""
    try:
        with Directory.top(cluster_dir, Writer("", ownership)) as cluster:
            cluster.put_right()
            return sum(_below(cluster, name, trouble) for name in cluster.names() if _OURS.fullmatch(name))
    except OSError as error:
        trouble(reason(error))
        return 0


def _below(parent: Directory, name: str, trouble: Tell) -> int:
    """The same for what has that name in a directory. Only root makes directories in there, so it is not deep."""
    try:
        directory = parent.existing(name)
        if directory is None:
            return 0
        with directory:
            directory.put_right()
            given = _given(directory, trouble) if RecordName.parse(name) else 0
            return given + sum(_below(directory, one, trouble) for one in directory.names())
    except NotADirectoryError:
        return _file(parent, name, trouble)
    except OSError as error:
        trouble(reason(error))
        return 0


def _given(record: Directory, trouble: Tell) -> int:
    """Gives what stayed root's of a record to its owner (store.Writer); to how many files that happened."""
    owner = record.owner_of(MANIFEST)
    if owner == os.geteuid() and (manifest := manifest_in(record)) is not None:
        owner = manifest.uid  # as root wrote it
    nodes = record.existing(NODES)
    with contextlib.ExitStack() as opened:
        places = [record, *([opened.enter_context(nodes)] if nodes else [])]
        try:
            files = [(place, name) for place in places for name in place.names() if place.owner_of(name) is not None]
            return sum(place.give_file(name, owner) for place, name in files if owner is not None)
        except OSError as error:
            trouble(f"{record.path}: {reason(error)}")
            return 0


def _file(parent: Directory, name: str, trouble: Tell) -> int:
    try:
        return int(parent.put_file_right(name))
    except OSError as error:
        trouble(reason(error))
        return 0
