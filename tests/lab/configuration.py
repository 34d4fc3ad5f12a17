# SPDX-License-Identifier: Apache-2.0
"""Slurm's configuration files: a cluster as sites run it, and the few lines that namespaces force."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.accounts import Accounts
from lab.directory import Directory
from lab.hosts import Host

Settings = Mapping[str, str | None]
"""slurm.conf: parameter to value. A line with several parameters has its first one, as "PartitionName=main", as key;
None takes a line away."""


@dataclass(frozen=True)
class Shape:
    """What the cluster is made of."""

    nodes: tuple[str, ...]
    gpus_per_node: int
    cpus_per_node: int
    memory_per_node_mib: int
    release: tuple[int, int]


class ConfigurationFiles:
    """The files that a lab's hosts read, written into its directory."""

    def __init__(self, directory: Directory, accounts: Accounts, shape: Shape) -> None:
        self._directory = directory
        self._accounts = accounts
        self._shape = shape
        self._log = directory.path / "log"

    def write_all(self, hosts: Iterable[Host], settings: Settings, plugstack: str) -> None:
        """Writes all of them, with a new munge key."""
        write, munge, slurm = self._directory.write, self._accounts["munge"], self._accounts["slurm"]
        addresses = "".join(f"{host.address} {host.name}\n" for host in hosts)
        write("etc/passwd", self._accounts.passwd())
        write("etc/group", self._accounts.group())
        write("etc/hosts", f"127.0.0.1 localhost\n{addresses}")
        write("etc/munge.key", os.urandom(64).hex(), uid=munge.uid, gid=munge.gid, mode=0o400)
        write("etc/slurm/slurmdbd.conf", slurmdbd_conf(self._log), uid=slurm.uid, gid=slurm.gid, mode=0o600)
        write("etc/slurm/cgroup.conf", cgroup_conf(self._shape.release))
        write("etc/slurm/gres.conf", gres_conf(self._shape))
        self.write_slurm_conf(settings, plugstack)

    def write_slurm_conf(self, settings: Settings, plugstack: str) -> None:
        """Writes the two files that a running cluster may read again."""
        self._directory.write("etc/slurm/slurm.conf", slurm_conf(self._shape, self._log, settings))
        self._directory.write("etc/slurm/plugstack.conf", plugstack)


def slurm_conf(shape: Shape, log: Path, settings: Settings) -> str:
    """The text of slurm.conf; `settings` override or add to the lab's own."""
    lines: dict[str, str | None] = {
        "ClusterName": "lab",
        "SlurmctldHost": "ctl",
        "SlurmUser": "slurm",
        "StateSaveLocation": "/var/spool/slurmctld",
        "SlurmdSpoolDir": "/var/spool/slurmd",
        "SlurmctldPidFile": "/run/slurm/slurmctld.pid",
        "SlurmdPidFile": "/run/slurmd.pid",
        "SlurmctldLogFile": str(log / "slurmctld.log"),
        "SlurmdLogFile": str(log / "slurmd-%h.log"),
        "AuthType": "auth/munge",
        # A fresh /sys has no cgroup file system, and hosts of one kernel must not share one.
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/linux",
        "MpiDefault": "none",
        "MailProg": "/bin/true",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "DefMemPerCPU": "100",
        # The nodes claim more than the machine has.
        "SlurmdParameters": "config_overrides",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "ctl",
        "ReturnToService": "1",
        "JobRequeue": "1",
        "SlurmdTimeout": "300",
        **_nodes(shape),
        "PartitionName=main": "Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=2",
        "PartitionName=low": "Nodes=ALL MaxTime=INFINITE PriorityTier=1",
        **settings,
    }
    return "".join(f"{key}{' ' if '=' in key else '='}{value}\n" for key, value in lines.items() if value is not None)


def gres_conf(shape: Shape) -> str:
    """The text of gres.conf."""
    return f"Name=gpu File={_devices(shape.gpus_per_node)}\n" if shape.gpus_per_node else ""


def cgroup_conf(release: tuple[int, int]) -> str:
    """The text of cgroup.conf. 22.05 and 23.02 want to detect a cgroup version and fail, unless one is named."""
    return f"CgroupPlugin={'disabled' if release >= (23, 11) else 'cgroup/v1'}\n"


def slurmdbd_conf(log: Path) -> str:
    """The text of slurmdbd.conf; the database answers on its local socket alone."""
    return (
        "DbdHost=ctl\nSlurmUser=slurm\nAuthType=auth/munge\nPidFile=/run/slurm/slurmdbd.pid\n"
        f"LogFile={log / 'slurmdbd.log'}\n"
        "StorageType=accounting_storage/mysql\nStorageHost=localhost\nStorageUser=root\nStorageLoc=slurm_acct_db\n"
    )


def _nodes(shape: Shape) -> dict[str, str]:
    if not shape.nodes:
        return {}
    parts = [
        f"Sockets=1 CoresPerSocket={shape.cpus_per_node} ThreadsPerCore=1 RealMemory={shape.memory_per_node_mib}",
        *([f"Gres=gpu:{shape.gpus_per_node}"] if shape.gpus_per_node else []),
    ]
    gres = {"GresTypes": "gpu"} if shape.gpus_per_node else {}
    return {**gres, f"NodeName={','.join(shape.nodes)}": " ".join([*parts, "State=UNKNOWN"])}


def _devices(count: int) -> str:
    return "/dev/nvidia0" if count == 1 else f"/dev/nvidia[0-{count - 1}]"
