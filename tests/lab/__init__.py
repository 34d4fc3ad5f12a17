# SPDX-License-Identifier: Apache-2.0
"""A real Slurm cluster of separate hosts on one machine, for tests, the demonstration and developers.

`with Cluster(nodes=4) as lab:` starts it, in a second and a half; it needs root, Debian's packages (releases.PACKAGES)
and nothing running beforehand. `python -m lab` is the same for a person.

    cluster     what a test does                    configuration  slurm.conf and its like
    daemons     munged, slurmctld and the others    database       accounting, from a template
    hosts       the site, its hosts, their network  accounts       users and their homes
    namespaces  entering and killing them           directory      where all files of a lab live
    processes   starting programs                   releases       which Slurm it is
    entry       the way in from outside             roots          other Debian releases, the product built for them
    agents      the product's agents, one a node    hung           a file system that never answers
    clock       a node whose clock can be set

One kernel and one clock serve all hosts, and home and shared directories do not go away with a cut link. All else of
a host is its own: network, processes, hostname, boot id, file system, /dev, /run, /tmp.
"""

from lab.cluster import Cluster
from lab.errors import LabError
from lab.processes import Completed, Process, wait_until

__all__ = ["Cluster", "Completed", "LabError", "Process", "wait_until"]
