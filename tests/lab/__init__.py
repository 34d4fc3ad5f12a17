# SPDX-License-Identifier: Apache-2.0
"""A real Slurm cluster of separate hosts on one machine, for tests, the demonstration and developers.

`with Cluster(nodes=4) as lab:` starts it; needs root, Debian's Slurm packages and nothing running beforehand.
"""

from lab.cluster import Cluster
from lab.errors import LabError
from lab.processes import Completed, Process, wait_until

__all__ = ["Cluster", "Completed", "LabError", "Process", "wait_until"]
