# SPDX-License-Identifier: Apache-2.0
"""What is measured: the product as it is in the tree now, built for the release of Slurm that labs run, and labs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab import Cluster
from lab.configuration import Settings
from lab.processes import run_here
from lab.roots import PREFIX

REPOSITORY = Path(__file__).parents[1]
_BARE = REPOSITORY / "build" / "bare.so"

PLUGSTACK = f"optional {PREFIX}/lib/slurm/stepguard.so\n"
PYTHON = f"{PREFIX}/venv/bin/python"
COMMAND = f"{PREFIX}/bin/stepguard"


@dataclass(frozen=True)
class Site:
    """The installed product, and how many rounds the command line wants: `wanted`, or else few if `quick`."""

    product: Path
    wanted: int | None = None
    quick: bool = False

    def rounds(self, full: int, quick: int) -> int:
        """How many rounds a part makes."""
        return self.wanted or (quick if self.quick else full)

    def lab(self, nodes: int, gpus_per_node: int = 0, plugstack: str = PLUGSTACK) -> Cluster:
        """A cluster that has the product; not started yet."""
        return Cluster(nodes, gpus_per_node, plugstack=plugstack, prefix=self.product)

    def lab_with_agents(
        self, nodes: int, slurm_conf: Settings | None = None, cpus_per_node: int = 8, gpus_per_node: int = 0
    ) -> Cluster:
        """The same with an agent on each node; `slurm_conf` may say which prolog and epilog there are."""
        return Cluster(
            nodes,
            gpus_per_node,
            slurm_conf=slurm_conf,
            plugstack=PLUGSTACK,
            prefix=self.product,
            cpus_per_node=cpus_per_node,
            agents="",
        )


def compile_bare() -> Path:
    """The bare plugin, bare.c, compiled for the machine's own Slurm."""
    source = Path(__file__).with_name("bare.c")
    run_here(
        ["gcc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", str(_BARE), str(source)]
    )
    return _BARE
