# SPDX-License-Identifier: Apache-2.0
"""The daemons of a lab, each in the foreground of its host, so that an early end is seen and told."""

from __future__ import annotations

import signal

from lab import database
from lab.accounts import Accounts
from lab.directory import Directory
from lab.errors import LabError
from lab.hosts import Host
from lab.processes import Completed, Process, start, tail, wait_until

_DBD_PORT, _CTLD_PORT = 6819, 6817


class Daemons:
    """Starts and stops them. A daemon is known by its host's name and its own."""

    def __init__(self, directory: Directory, accounts: Accounts) -> None:
        self._directory = directory
        self._accounts = accounts
        self._running: dict[tuple[str, str], Process] = {}

    def start_munge(self, host: Host) -> None:
        """Starts munged; it takes some ms until it answers, all that need it try again."""
        key = self._directory.path / "etc/munge.key"
        argv = ["munged", "--foreground", f"--key-file={key}"]
        self.start(host, argv, user="munge")

    def start_database(self, host: Host) -> None:
        """Starts MariaDB on its copy of the template, which is there already; waits for its socket."""
        self.start(host, database.SERVER_ARGV)
        socket = host.root() / "run/mysqld/mysqld.sock"
        wait_until(lambda: self._check(host, "mariadbd") and socket.exists(), "MariaDB answers", 30)

    def start_slurmdbd(self, host: Host) -> None:
        """Starts slurmdbd and waits until it listens."""
        self.start(host, ["slurmdbd", "-D"])
        wait_until(lambda: self._check(host, "slurmdbd") and host.listens(_DBD_PORT), "slurmdbd listens", 30)

    def start_slurmctld(self, host: Host) -> None:
        """Starts slurmctld and waits until it listens."""
        self.start(host, ["slurmctld", "-D"])
        wait_until(lambda: self._check(host, "slurmctld") and host.listens(_CTLD_PORT), "slurmctld listens", 30)

    def start_slurmd(self, host: Host, *, rebooted: bool = False) -> None:
        """Starts slurmd. `rebooted`: it says that the node has booted just now, for the one kernel never does.

        Only then: slurmctld has a node that registers twice in its first second for one that rebooted by itself.
        """
        self.start(host, ["slurmd", "-D", *(["-b"] if rebooted else [])])

    def stop(self, host: Host, name: str) -> None:
        """Ends a daemon as its init script does."""
        process = self._running.pop((host.name, name), None)
        if process is None:
            raise LabError(f"{name} does not run on {host.name}")
        process.send_signal(signal.SIGTERM)
        process.wait(30)

    def forget(self, host: Host) -> None:
        """The host lost its power, and these processes with it."""
        for key in [key for key in self._running if key[0] == host.name]:
            self._running.pop(key).wait(10)

    def run(self, host: Host, argv: list[str], timeout_s: float = 60) -> Completed:
        """Runs an administrator's command on a host. Raises LabError when it fails."""
        process = start(
            argv,
            output=self._directory.next_output(argv[0]),
            inside=host.on(),
            env=self._accounts["root"].environment(),
        )
        if process.wait(timeout_s) != 0:
            raise LabError(f"{host.name}: status {process.status}: {process.describe()}")
        return Completed(tuple(argv), 0, process.stdout, process.stderr)

    def prepare_database(self, host: Host, version: str) -> None:
        """Puts the database's data directory in place, from the template, which the first lab ever makes."""
        users = [user.name for user in self._accounts.users]
        path = database.template(version, *users)
        owner = self._accounts["mysql"]
        data = host.root() / database.DATA.lstrip("/")
        with database.making(path) as keep:
            if keep is not None:
                self.run(host, database.INSTALL_ARGV)
                self.start_database(host)
                # slurmdbd would make it, but then it is stuck: the client library of MariaDB 11.8.9 forgets its
                # defaults when a connection to a database that is not there has failed, and refuses all results.
                self.run(host, ["mariadb", "--user=root", "--execute=create database slurm_acct_db"])
                self.start_slurmdbd(host)
                self._fill(host, users)
                self.stop(host, "slurmdbd")
                self.stop(host, "mariadbd")
                keep(data)
                return
        database.copy_to(data, path, owner.uid, owner.gid)

    def _fill(self, host: Host, users: list[str]) -> None:
        for words in (
            ["cluster", "lab"],
            ["account", "research", "cluster=lab", "Description=lab", "Organization=lab"],
            *(["user", user, "account=research", "cluster=lab"] for user in users),
        ):
            self.run(host, ["sacctmgr", "-i", "add", *words])

    def start(self, host: Host, argv: list[str], user: str = "root", name: str = "") -> Process:
        """Starts a daemon that is known by `name`, or else by its program's."""
        account = self._accounts[user]
        name = name or argv[0]
        self._running[host.name, name] = process = start(
            argv,
            output=self._directory.next_output(f"{host.name}-{name}"),
            inside=host.on(),
            uid=account.uid,
            gid=account.gid,
            env={"PATH": account.environment()["PATH"], "LANG": "C.UTF-8", **host.daemon_environment},
        )
        return process

    def _check(self, host: Host, name: str) -> bool:
        process = self._running[host.name, name]
        if process.status is not None:
            log = self._directory.path / "log" / f"{name}.log"
            raise LabError(f"{name} ended with status {process.status}: {process.describe()}{tail(log)}")
        return True
