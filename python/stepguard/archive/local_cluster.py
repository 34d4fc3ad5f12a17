# SPDX-License-Identifier: Apache-2.0
"""The names of this node and its cluster, for messages that do not tell them.

What was told last is remembered in SPOOL/here.json, so that messages which come late find the record that they belong
to. Before anything was told, slurm.conf names the cluster, as far as that can be read without slurmctld (no command of
Slurm's is run for a record), and the kernel the node.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from stepguard.archive.layout import is_safe_name
from stepguard.records.spool import write_synced

UNKNOWN = "cluster"
_NAME = re.compile(r"^[ \t]*ClusterName[ \t]*=[ \t]*(\S+)", re.IGNORECASE | re.MULTILINE)
# Where slurmd has it, with files and without (SlurmdParameters=conf-server: "configless").
_PLACES = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/var/spool/slurmd/conf-cache/slurm.conf")
_MAX_CHARS = 1 << 20


class Here(NamedTuple):
    """This node and its cluster, both as Slurm names them."""

    node: str
    cluster: str


class Names:
    """What is known of this node's names: `here`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.here = _remembered(path) or Here(os.uname().nodename.partition(".")[0], name())
        self._is_remembered = path.exists()

    def told(self, node: str, cluster: str) -> None:
        """Both were told by root. Raises OSError."""
        if self._is_remembered and (node, cluster) == self.here:
            return
        self.here = Here(node, cluster)
        write_synced(self._path, json.dumps(self.here._asdict()).encode("ascii"))
        self._is_remembered = True


def name() -> str:
    """The cluster's name by slurm.conf; "cluster" where none is found."""
    for place in (os.environ.get("SLURM_CONF", ""), *_PLACES):
        try:
            with Path(place).open(errors="replace") as file:
                found = _NAME.search(file.read(_MAX_CHARS))
        except OSError:
            continue
        if found and is_safe_name(found[1].lower()):
            return found[1].lower()  # as Slurm does with it
    return UNKNOWN


def _remembered(path: Path) -> Here | None:
    try:
        said = json.loads(path.read_bytes())
        node, cluster = said["node"], said["cluster"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return Here(node, cluster) if is_safe_name(str(node)) and is_safe_name(str(cluster)) else None
