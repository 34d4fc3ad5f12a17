# SPDX-License-Identifier: Apache-2.0
"""Which Slurm the hosts run: the machine's own, or another Debian release's from a debootstrap directory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.processes import run_here

ROOTS = Path(__file__).parents[2] / "build" / "roots"

PACKAGES = ("slurmctld", "slurmd", "slurmdbd", "slurm-client", "slurm-wlm-mysql-plugin", "munge", "mariadb-server")


@dataclass(frozen=True)
class Release:
    """A root file system with Slurm in it: / or a debootstrap directory."""

    root: Path
    version: str
    """As Slurm says it: 22.05.8."""

    @property
    def number(self) -> tuple[int, int]:
        """The release proper: (22, 5)."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    @classmethod
    def find(cls, name: str | None) -> Release:
        """The release of that name ("24.11"), or the machine's own. Raises LabError saying how to get it."""
        root = Path("/") if name is None else ROOTS / name
        if not (root / "usr/sbin/slurmctld").exists():
            advice = f"apt-get install --no-install-recommends {' '.join(PACKAGES)}"
            raise LabError(f"no slurmctld in {root}: {advice if name is None else f'python -m lab root {name}'}")
        said = run_here(["chroot", str(root), "/usr/sbin/slurmctld", "-V"]).stdout
        found = re.search(r"(\d+\.\d+\.\d+)", said)
        if found is None:
            raise LabError(f"slurmctld -V in {root}: not understood: {said}")
        return cls(root, found[1])
