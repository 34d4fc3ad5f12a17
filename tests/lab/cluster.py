# SPDX-License-Identifier: Apache-2.0
"""The cluster: all that a test does with the lab."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from lab import agents as product_agents
from lab.accounts import Accounts
from lab.agents import Agents
from lab.configuration import ConfigurationFiles, Settings, Shape
from lab.daemons import Daemons
from lab.directory import Directory
from lab.errors import LabError
from lab.hosts import Host, Site, address
from lab.processes import Completed, Process, start, tail, wait_until
from lab.releases import Release

CONTROLLER, LOGIN = "ctl", "login"


class Cluster:
    """A Slurm cluster: hosts `ctl` (slurmctld, slurmdbd), `login` and `n1` to `nN` (slurmd). Use it with `with`.

    `nodes`          how many nodes
    `gpus_per_node`  GRES gpu, plain files in place of devices
    `slurm_conf`     lines of slurm.conf to add, override or (None) leave out, see lab.configuration.Settings
    `plugstack`      the text of plugstack.conf
    `prefix`         a directory of this side, read-only at /opt/stepguard on every host
    `release`        "24.11": another Debian release's Slurm, see lab.releases
    `users`          unprivileged users, with a home that is the same on all hosts
    `agents`         each node has the product's agent, prolog and epilog, and this is what stepguard.toml says behind
                     `[archive]` and `dir = `; "" adds nothing, None is a cluster without agents
    """

    def __init__(
        self,
        nodes: int = 4,
        gpus_per_node: int = 0,
        slurm_conf: Settings | None = None,
        plugstack: str = "",
        prefix: Path | None = None,
        release: str | None = None,
        users: Sequence[str] = ("alice", "bob"),
        cpus_per_node: int = 8,
        memory_per_node_mib: int = 8000,
        agents: str | None = None,
    ) -> None:
        if os.geteuid() != 0:
            raise LabError("the lab makes namespaces and mounts: run it as root")
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.release = Release.find(release)
        self._users = tuple(users)
        self._prefix = prefix
        self._agents_text = agents
        self._settings = {**(product_agents.SLURM_CONF if agents is not None else {}), **(slurm_conf or {})}
        self._plugstack = plugstack
        self._shape = Shape(tuple(self.nodes), gpus_per_node, cpus_per_node, memory_per_node_mib, self.release.number)
        self._on_terminals: list[Process] = []
        names = [CONTROLLER, LOGIN, *self.nodes]
        self._hosts = {name: Host(name, address(index)) for index, name in enumerate(names)}
        for node in self.nodes:
            self._hosts[node].gpus = gpus_per_node

    def __enter__(self) -> Cluster:
        self.up()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            self.explain(error)
        self.down()

    def up(self) -> None:
        """Starts the cluster; returns when all nodes are idle. Raises LabError when it does not come up."""
        self._directory = Directory()
        try:
            self._accounts = Accounts(self.release.root, self._users, self._directory.path / "home")
            self._accounts.make_homes()
            self._files = ConfigurationFiles(self._directory, self._accounts, self._shape)
            self._files.write_all(self._hosts.values(), self._settings, self._plugstack)
            if self._agents_text is not None:
                product_agents.prepare(self._directory, self.nodes, self.archive, self._agents_text)
            self._site = Site(self._directory, self.release.root, self._prefix)
        except BaseException:
            self._directory.remove()
            raise
        try:
            self._daemons = Daemons(self._directory, self._accounts)
            self._agents = Agents(self._directory, self._daemons, self._hosts)
            self._start_everything()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Ends all that runs in the lab and removes its files."""
        self._site.end()
        for process in self._on_terminals:
            process.hang_up()
        self._directory.remove()

    # Files

    @property
    def shared(self) -> Path:
        """A directory that everybody may write to, under this path on every host and on this side."""
        return self._directory.path / "shared"

    @property
    def archive(self) -> Path:
        """The archive of the agents, under this path on every host and on this side."""
        return self._directory.path / "archive"

    @property
    def agents(self) -> Agents:
        """The agents of the nodes. Raises LabError when the lab has none."""
        if self._agents_text is None:
            raise LabError("this lab has no agents: Cluster(agents='')")
        return self._agents

    def home(self, user: str = "alice") -> Path:
        """A user's home, under this path on every host; an ordinary user's also on this side."""
        return Path(self._accounts[user].home)

    def write(self, path: Path | str, text: str, user: str = "alice", mode: int = 0o644) -> Path:
        """Writes a file below `home` or `shared` as that user's; a relative path starts at the user's home."""
        account = self._accounts[user]
        target = Path(account.home, path)
        if not target.is_relative_to(self._directory.path):
            raise LabError(f"{target} is on this machine, not in the lab")
        target.write_text(text, errors="surrogateescape")
        os.chown(target, account.uid, account.gid)
        target.chmod(mode)
        return target

    def root(self, host: str) -> Path:
        """A host's root directory as this side can read and write it, for /run, /etc or /dev of one host."""
        return self._hosts[host].root()

    def node_log(self, node: str) -> str:
        """What the node's slurmd and its step daemons have logged."""
        return self._log(f"slurmd-{node}.log")

    def controller_log(self) -> str:
        """What slurmctld has logged."""
        return self._log("slurmctld.log")

    def explain(self, error: BaseException) -> None:
        """Adds the ends of the daemons' logs to an error, which outlives them."""
        for path in sorted((self._directory.path / "log").iterdir()):
            error.add_note(f"-- {path.name}\n{tail(path)}")

    # Programs

    def start(
        self,
        argv: Sequence[str],
        host: str = LOGIN,
        user: str = "alice",
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        text_in: str | None = None,
        tty: bool = False,
    ) -> Process:
        """Starts a program on a host, by default in the user's home and with a login's environment.

        `env` adds to that environment. With `tty` it leads a session on a terminal whose other side is the Process's.
        """
        account = self._accounts[user]
        process = start(
            argv,
            output=self._directory.next_output(Path(argv[0]).name),
            inside=self._hosts[host].on(),
            uid=account.uid,
            gid=account.gid,
            env={**account.environment(), **({"TERM": "xterm"} if tty else {}), **(env or {})},
            cwd=str(cwd or account.home),
            text_in=text_in,
            tty=tty,
        )
        if tty:
            self._on_terminals.append(process)
        return process

    def run(
        self,
        argv: Sequence[str],
        host: str = LOGIN,
        user: str = "alice",
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        text_in: str | None = None,
        timeout_s: float = 60,
        check: bool = True,
    ) -> Completed:
        """Runs a program on a host to its end, started as by `start`.

        Raises LabError when it does not end within `timeout_s` (it is killed then), or, with `check`, when its status
        is not 0.
        """
        process = self.start(argv, host, user, cwd, env, text_in)
        try:
            status = process.wait(timeout_s)
        except LabError:
            process.kill()
            raise
        if check and status != 0:
            raise LabError(f"status {status} of {process.describe()}")
        return Completed(tuple(argv), status, process.stdout, process.stderr)

    def processes(self, host: str) -> dict[int, str]:
        """All processes of a host: process id on this side, and command line."""
        found = {}
        for pid in self._hosts[host].on().members():
            try:
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
        return found

    # Faults and repairs

    def power_off(self, node: str) -> None:
        """A power cut: all on the node is dead at once and its address answers nothing."""
        self._site.power_off(self._hosts[node])
        self._daemons.forget(self._hosts[node])

    def power_on(self, node: str) -> None:
        """Boots the node under its old name, with empty disks but for an agent's spool. With ReturnToService below 2,
        Slurm then shows it DOWN ("Node unexpectedly rebooted") until an administrator resumes it."""
        self._site.boot([self._hosts[node]])
        self._daemons.start_munge(self._hosts[node])
        if self._agents_text is not None:
            self._agents.start(node)
        self._daemons.start_slurmd(self._hosts[node], rebooted=True)

    def restart_slurmd(self, node: str) -> None:
        """Ends a node's slurmd and starts it again; what runs in jobs there goes on."""
        self._daemons.stop(self._hosts[node], "slurmd")
        self._daemons.start_slurmd(self._hosts[node])

    def set_daemon_environment(self, node: str, environment: Mapping[str, str]) -> None:
        """What the daemons of a node that are started from now on have in their environment besides."""
        self._hosts[node].daemon_environment = dict(environment)

    def cut_link(self, node: str) -> None:
        """Cuts the node's network cable; its processes live on, and its shared directories stay."""
        self._site.set_link(self._hosts[node], False)

    def heal_link(self, node: str) -> None:
        """Mends the cable."""
        self._site.set_link(self._hosts[node], True)

    def stop_controller(self) -> None:
        """Ends slurmctld."""
        self._daemons.stop(self._hosts[CONTROLLER], "slurmctld")

    def start_controller(self) -> None:
        """Starts slurmctld again, with the state it saved; returns when it listens.

        It takes Slurm 5 s more to ask the nodes, which are unknown until then: see `wait_idle`.
        """
        self._daemons.start_slurmctld(self._hosts[CONTROLLER])

    def restart_controller(self) -> None:
        """Ends slurmctld and starts it again."""
        self.stop_controller()
        self.start_controller()

    def reconfigure(self, slurm_conf: Settings | None = None, plugstack: str | None = None) -> None:
        """Changes lines of slurm.conf, or all of plugstack.conf, and has the daemons read them.

        Some parameters are only read at slurmctld's start: see slurm.conf(5), and `restart_controller`. Returns when
        the nodes have registered again: from 23.11 on the daemons start anew, and a job that is submitted before the
        nodes are back waits for the next pass of the scheduler, up to a minute.
        """
        self._settings.update(slurm_conf or {})
        self._plugstack = self._plugstack if plugstack is None else plugstack
        self._files.write_slurm_conf(self._settings, self._plugstack)
        self._daemons.run(self._hosts[CONTROLLER], ["scontrol", "reconfigure"])
        reachable = [node for node in self.nodes if self._hosts[node].namespaces and self._hosts[node].linked]

        def registered() -> bool:
            states = self.node_states()
            return not any(states[node].startswith("unk") for node in reachable)

        wait_until(registered, "nodes registered after scontrol reconfigure", 20, 0.05)

    # States

    def node_states(self) -> dict[str, str]:
        """Each node's state as sinfo shows it: "idle", "mixed", "down*"."""
        said = self._daemons.run(self._hosts[CONTROLLER], ["sinfo", "-a", "-h", "-N", "-o", "%N %T"]).stdout
        return dict(line.split(maxsplit=1) for line in said.splitlines())

    def wait_idle(self, nodes: Sequence[str] | None = None, timeout_s: float = 30) -> None:
        """Waits until these nodes (all, if not said) are idle and answer. Raises LabError telling their states."""
        wanted = self.nodes if nodes is None else nodes
        if not wanted:
            return
        states: dict[str, str] = {}

        def idle() -> bool:
            states.update(self.node_states())
            return all(states.get(node) == "idle" for node in wanted)

        try:
            wait_until(idle, "nodes idle", timeout_s, 0.05)
        except LabError as error:
            raise LabError(f"{error}: {states}\n{self.controller_log()[-2000:]}") from None

    def resume(self, node: str, timeout_s: float = 30) -> None:
        """As an administrator: sets the node to RESUME until it is idle and answers. More than once where slurmctld has
        it for rebooted again, as it has a node that registers twice in the second of its boot."""

        def idle() -> bool:
            state = self.node_states()[node]
            if state.startswith("down"):
                self._daemons.run(self._hosts[CONTROLLER], ["scontrol", "update", f"nodename={node}", "state=resume"])
            return state == "idle"

        wait_until(idle, f"{node} is idle", timeout_s, 0.2)

    def _start_everything(self) -> None:
        self._site.boot([*self._hosts.values()])
        for host in self._hosts.values():
            self._daemons.start_munge(host)
        controller = self._hosts[CONTROLLER]
        self._daemons.prepare_database(controller, self.release.version)
        self._daemons.start_database(controller)
        self._daemons.start_slurmdbd(controller)
        self._daemons.start_slurmctld(controller)
        if self._agents_text is not None:
            self._agents.start_all(self.nodes)
        for node in self.nodes:
            self._daemons.start_slurmd(self._hosts[node])
        self.wait_idle()

    def _log(self, name: str) -> str:
        path = self._directory.path / "log" / name
        return path.read_text(errors="replace") if path.exists() else ""
