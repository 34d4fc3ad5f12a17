# SPDX-License-Identifier: Apache-2.0
"""Which Slurm the hosts run: the machine's own, or another Debian release's from a debootstrap directory.

`python -m lab root 24.11` makes such a directory; STEPGUARD_LAB_RELEASE=24.11 makes it the one that is used when
nobody says which.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.processes import run_here

SUITES = {"22.05": "bookworm", "24.11": "trixie", "26.05": "sid"}
"""Slurm release to the Debian release that has it."""

PACKAGES = [
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "slurm-wlm-mysql-plugin",
    "munge",
    "mariadb-server",
    "iproute2",
]
"""What hosts need, wherever they get it from."""

BUILD_PACKAGES = ["gcc", "libc6-dev", "libslurm-dev", "make", "python3-dev", "python3-venv", "ca-certificates"]
"""What building the product in a root directory needs besides."""

ROOTS = Path(__file__).parents[2] / "build" / "roots"


@dataclass(frozen=True)
class Release:
    """A root directory with Slurm in it: / or one made by debootstrap."""

    root: Path
    version: str
    """As Slurm says it: 22.05.8."""

    @property
    def number(self) -> tuple[int, int]:
        """The release proper: (22, 5)."""
        return self.parse(self.version)

    @staticmethod
    def parse(version: str) -> tuple[int, int]:
        """The first two numbers of a version: "22.05" or "22.05.8" is (22, 5)."""
        major, minor = version.split(".")[:2]
        return int(major), int(minor)

    @classmethod
    def find(cls, name: str | None) -> Release:
        """The release of that name ("24.11"), else the one that is set, else the machine's own.

        Raises LabError saying how to get it.
        """
        name = name or os.environ.get("STEPGUARD_LAB_RELEASE") or None
        root = Path("/") if name is None else ROOTS / name
        needed = ("usr/sbin/slurmctld", "usr/sbin/slurmd", "usr/sbin/slurmdbd", "usr/sbin/munged", "usr/sbin/mariadbd")
        missing = [program for program in needed if not (root / program).exists()]
        if missing:
            advice = f"apt-get install --no-install-recommends {' '.join(PACKAGES)}"
            raise LabError(
                f"not in {root}: {', '.join(missing)}: {advice if name is None else f'python -m lab root {name}'}"
            )
        return cls.of(root)

    @classmethod
    def of(cls, root: Path) -> Release:
        """What release the Slurm in this root directory is."""
        said = run_here(["chroot", str(root), "/usr/sbin/slurmctld", "-V"]).stdout
        found = re.search(r"(\d+\.\d+\.\d+)", said)
        if found is None:
            raise LabError(f"slurmctld -V in {root}: not understood: {said}")
        return cls(root, found[1])
