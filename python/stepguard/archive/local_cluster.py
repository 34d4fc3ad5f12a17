# SPDX-License-Identifier: Apache-2.0
"""The name of the cluster that this node belongs to, for attempts that no hook told it of.

Read from slurm.conf as far as that goes without slurmctld: no command of Slurm's is run for a record.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from stepguard.archive.layout import is_safe_name

UNKNOWN = "cluster"
_NAME = re.compile(r"^[ \t]*ClusterName[ \t]*=[ \t]*(\S+)", re.IGNORECASE | re.MULTILINE)
# Where slurmd has it, with files and without (SlurmdParameters=conf-server: "configless").
_PLACES = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/var/spool/slurmd/conf-cache/slurm.conf")
_MAX_CHARS = 1 << 20


def name() -> str:
    """The cluster's name; "cluster" where none is found."""
    for place in (os.environ.get("SLURM_CONF", ""), *_PLACES):
        try:
            with Path(place).open(errors="replace") as file:
                found = _NAME.search(file.read(_MAX_CHARS))
        except OSError:
            continue
        if found and is_safe_name(found[1].lower()):
            return found[1].lower()  # as Slurm does with it
    return UNKNOWN
