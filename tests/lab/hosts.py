# SPDX-License-Identifier: Apache-2.0
"""The site and its hosts: who lives in which namespaces, and the network between them.

A lab is one site: a PID namespace whose first process reads a pipe that only the lab's owner can write to. When the
owner ends, however it ends, the pipe is closed, the first process ends, and the kernel kills all that ran in the site
and takes away its networks and mounts. Each host is a set of namespaces inside, linked to the site's bridge.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path

from lab.directory import Directory
from lab.errors import LabError
from lab.namespaces import Namespaces
from lab.processes import Process, run_here, start, wait_until

_NETWORK = IPv4Network("10.77.0.0/16")
HOSTS_NOTE = "hosts"
"""The file of a lab's directory that says which hosts are on: name, and the process that holds the namespaces."""

_WATCH_OWNER = "echo up; exec env --ignore-signal=CHLD cat"
_INIT = Path(__file__).with_name("host.sh")


@dataclass
class Host:
    """A host by name and address; `namespaces` is None while it is off, `linked` False while its cable is cut."""

    name: str
    address: str
    gpus: int = 0
    daemon_environment: dict[str, str] = field(default_factory=dict)
    namespaces: Namespaces | None = None
    holder: Process | None = None
    linked: bool = True

    def on(self) -> Namespaces:
        """Its namespaces. Raises LabError when it is off."""
        if self.namespaces is None:
            raise LabError(f"{self.name} is off")
        return self.namespaces

    def root(self) -> Path:
        """Its root file system as this side can reach it. Absolute links in it lead astray."""
        return Path(f"/proc/{self.on().holder}/root")

    def listens(self, port: int) -> bool:
        """Whether a program on it accepts connections on that TCP port."""
        listening = "0A"  # TCP_LISTEN
        for family in ("tcp", "tcp6"):
            for line in Path(f"/proc/{self.on().holder}/net/{family}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == listening and int(fields[1].rpartition(":")[2], 16) == port:
                    return True
        return False


class Site:
    """The namespaces around all hosts of a lab, with the bridge that links them."""

    def __init__(self, directory: Directory, lower: Path, prefix: Path | None) -> None:
        self._directory = directory
        self._lower = lower
        self._prefix = prefix
        self._hosts: dict[str, Host] = {}
        reader, self._life = os.pipe()
        try:
            self._holder = start(
                ["unshare", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", _WATCH_OWNER],
                output=directory.next_output("site"),
                stdin_fd=reader,
                # The lock is the site's too: nobody removes the directory while anything in it lives.
                keep_fds=(directory.lock_fd,),
            )
        finally:
            os.close(reader)
        self._namespaces = _up(self._holder)
        self._ip(["link add lab type bridge", "link set lab up"])

    def boot(self, hosts: Sequence[Host]) -> None:
        """Powers hosts on: each gets fresh namespaces, its link and its address. No daemon is started."""
        self._hosts.update({host.name: host for host in hosts})
        for host in hosts:
            host.holder = start(
                ["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child", str(_INIT)]
                + [str(self._directory.path), host.name, str(self._lower), str(host.gpus)]
                + ([str(self._prefix)] if self._prefix else []),
                output=self._directory.next_output(f"{host.name}-boot"),
                born_in=self._namespaces,
            )
        links = []
        for host in hosts:
            assert host.holder is not None
            host.namespaces, host.linked = _up(host.holder), True
            links += [
                f"link add v-{host.name} type veth peer name eth0 netns {host.holder.pid}",
                f"link set v-{host.name} master lab up",
            ]
        self._ip(links)
        for host in hosts:
            self._ip(
                ["link set lo up", f"addr add {host.address}/{_NETWORK.prefixlen} dev eth0", "link set eth0 up"],
                host.on(),
            )
        self._note()

    def power_off(self, host: Host) -> None:
        """A power cut: nothing on the host gets to say a last word, its address falls silent at once."""
        namespaces, holder = host.on(), host.holder
        assert holder is not None
        # The link first: the kernel would say goodbye on the dying processes' connections.
        self._ip([f"link del v-{host.name}"])
        namespaces.kill()
        holder.wait(10)
        host.namespaces = host.holder = None
        self._note()

    def set_link(self, host: Host, linked: bool) -> None:
        """Cuts or heals the host's cable, at the end that is not the host's."""
        host.on()
        self._ip([f"link set v-{host.name} {'up' if linked else 'down'}"])
        host.linked = linked

    def end(self) -> None:
        """Ends the site and all that runs in it."""
        os.close(self._life)
        self._namespaces.kill([host.namespaces for host in self._hosts.values() if host.namespaces is not None])
        self._holder.wait(10)

    def _ip(self, commands: Sequence[str], of: Namespaces | None = None) -> None:
        entry = (of or self._namespaces).entry("net")
        run_here([*entry, "ip", "-batch", "-"], text_in="".join(f"{command}\n" for command in commands))

    def _note(self) -> None:
        """Writes down which hosts are on, for lab.entry."""
        on = [f"{host.name} {host.namespaces.holder}\n" for host in self._hosts.values() if host.namespaces]
        self._directory.write(HOSTS_NOTE, "".join(on))


def address(index: int) -> str:
    """The address of the host with that index, counted from 0."""
    return str(_NETWORK[index + 1])


def _up(holder: Process) -> Namespaces:
    """Waits for the word `up` of the first process of new namespaces."""

    def said() -> bool:
        if holder.status is not None:
            raise LabError(f"ended with status {holder.status}: {holder.describe()}")
        return "up" in holder.stdout

    wait_until(said, f"up: {' '.join(holder.argv)}", 20, 0.002)
    return Namespaces(holder.pid)
