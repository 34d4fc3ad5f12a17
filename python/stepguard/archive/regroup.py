# SPDX-License-Identifier: Apache-2.0
"""Groups and modes of all that lies in the archive, as `[archive] admin_groups` asks for now: what was written before
it was switched on (or off, or to another group) is made readable to the group (or to the owner alone) afterwards.

Writers do so with the directories on their way (store); this does it with all records and scripts. The index is put
right by whoever opens it (index). All names here are root's, so a file is the one that was put there, whatever its
owner may have made of it.
"""

from __future__ import annotations

import re
from pathlib import Path

from stepguard.archive.layout import SCRIPTS
from stepguard.archive.ownership import Ownership
from stepguard.archive.store import Directory, Writer

_OURS = re.compile(rf"[0-9]{{4}}|{SCRIPTS}", re.ASCII)


def regroup(cluster_dir: Path, ownership: Ownership) -> int:
    """Puts a cluster's records and scripts right; of how many files that was needed. Raises OSError."""
    with Directory.top(cluster_dir, Writer("", ownership)) as cluster:
        cluster.put_right()
        return sum(_below(cluster, name) for name in cluster.names() if _OURS.fullmatch(name))


def _below(parent: Directory, name: str) -> int:
    """The same for what has that name in a directory. Only root makes directories in there, so it is not deep."""
    try:
        directory = parent.existing(name)
    except NotADirectoryError:
        return int(parent.put_file_right(name))
    if directory is None:
        return 0
    with directory:
        directory.put_right()
        return sum(_below(directory, one) for one in directory.names())
