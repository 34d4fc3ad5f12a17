# SPDX-License-Identifier: Apache-2.0
"""Is the installation the same on all hosts? Batch scripts run on nodes, and so do supervisor and watch."""

from __future__ import annotations

import re
from pathlib import Path

from stepguard.doctor.result import Result, ok, unknown

CHECK = "nodes"
# File systems that hosts share, as /proc/self/mountinfo names them.
_SHARED = re.compile(
    r"nfs|lustre|gpfs|beegfs|ceph|wekafs|cifs|smb|panfs|orangefs|glusterfs|cvmfs|pvfs|dvs|9p|virtiofs|afs"
)


def check_sharing(prefix: Path, mounts: str) -> Result:
    """Whether PREFIX lies on a shared file system; `mounts` is the text of /proc/self/mountinfo."""
    kind = file_system(prefix, mounts)
    if is_shared(kind):
        return ok(CHECK, f"{prefix} is on a shared file system ({kind})")
    return unknown(
        CHECK,
        f"{prefix} is on this host's own disk ({kind or 'unknown'}), and every host needs its own",
        f"ask a node: `srun -N1 {prefix}/bin/stepguard doctor`",
    )


def is_shared(kind: str) -> bool:
    """Whether file systems of this type are those that hosts share."""
    return bool(_SHARED.search(kind))


def file_system(path: Path, mounts: str) -> str:
    """The type of the file system that holds `path`; of mounts over one another the last one counts."""
    best, kind = Path(), ""
    for line in mounts.splitlines():
        # proc_pid_mountinfo(5): the mount point is field 5, the type follows the separator "-".
        left, _, right = line.partition(" - ")
        if len(left.split()) < 5 or not right:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), left.split()[4]))
        if path.is_relative_to(point) and len(point.parts) >= len(best.parts):
            best, kind = point, right.split()[0]
    return kind
