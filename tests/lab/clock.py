# SPDX-License-Identifier: Apache-2.0
"""A node whose wall clock can be set, though one kernel serves all: its slurmd, slurmstepds and agent read the time
through a library of the lab's (clock.c). Programs that are linked statically, as the hooks are, have the machine's.
"""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

from lab.cluster import Cluster

_SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    """The clock of a node; making it starts the node's daemons again, the agent first."""

    def __init__(self, lab: Cluster, node: str) -> None:
        self._file = lab.shared / f"{node}.clock"
        library = lab.shared / "clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-o", library, _SOURCE], check=True)
        self.set_ahead(0)
        lab.set_daemon_environment(node, {"LD_PRELOAD": str(library), "LAB_CLOCK": str(self._file)})
        lab.agents.stop(node)
        lab.agents.start(node)
        lab.restart_slurmd(node)

    def set_ahead(self, seconds: float) -> None:
        """From now on it is so much ahead of the machine's."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("=q", int(seconds * 1e9)))
