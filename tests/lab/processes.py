# SPDX-License-Identifier: Apache-2.0
"""The only place of the lab that starts programs: on this side, or inside the namespaces of a host.

A program inside is entered by `nsenter`, which replaces itself by it: what we hold is the program itself, so its
signals, stops and status are true. It is born in the host's PID namespace, for nsenter would have to fork for that,
and then it would be nsenter that a Ctrl-C meets.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab.errors import LabError

_CLONE_NEWPID = 0x20000000  # <sched.h>
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass
class Namespaces:
    """The namespaces made by a `unshare --fork` that lives. `holder` is its process id on this side."""

    holder: int
    started: list[Process] = field(default_factory=list)
    """What `start` began in them: children of ours, which the PID namespace cannot end without us."""

    def enter_argv(self) -> list[str]:
        """The command that goes before one which is to run inside (but for the PID namespace, see `start`)."""
        kinds = {"mount": "mnt", "net": "net", "uts": "uts", "ipc": "ipc"}
        return [_tool("nsenter"), *(f"--{option}=/proc/{self.holder}/ns/{file}" for option, file in kinds.items())]

    def first_process(self) -> int:
        """The process id, on this side, of the first process: when it ends, all processes inside are killed."""
        return int(Path(f"/proc/{self.holder}/task/{self.holder}/children").read_text().split()[0])

    def kill(self, within: Sequence[Namespaces] = ()) -> None:
        """Kills all that runs inside; returns when it is gone. `within`: the namespaces made inside these."""
        fd = os.pidfd_open(self.first_process())
        try:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            for namespaces in (self, *within):
                for process in namespaces.started:
                    process.wait(30)
            # The first process of a PID namespace ends only after all others in it have.
            if not select.select([fd], [], [], 30)[0]:
                raise LabError(f"the namespaces of process {self.holder} do not end")
        finally:
            os.close(fd)

    def members(self) -> list[int]:
        """The process ids, on this side, of all processes in the PID namespace."""
        inside = _pid_namespace(self.holder, "pid_for_children")
        pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        return [pid for pid in pids if inside is not None and _pid_namespace(pid, "pid") == inside]


@dataclass(frozen=True)
class Completed:
    """A program that ended: its exit status (negative: ended by that signal) and what it printed."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str


class Process:
    """A program that was started. Its output goes to files, which can be read while it runs."""

    def __init__(self, popen: subprocess.Popen[bytes], stdout_path: Path, stderr_path: Path, terminal: int | None):
        self._popen = popen
        self.argv = tuple(str(word) for word in popen.args) if isinstance(popen.args, list) else ()
        self.pid = popen.pid
        self.stdout_path = stdout_path
        self.stderr_path = stderr_path
        self.terminal = terminal
        """The master side of its terminal (a descriptor), if it was started with one."""

    @property
    def status(self) -> int | None:
        """The exit status if it has ended (negative: the signal that ended it), else None."""
        return self._popen.poll()

    @property
    def stdout(self) -> str:
        """What it has printed so far."""
        return self.stdout_path.read_text(errors="surrogateescape")

    @property
    def stderr(self) -> str:
        """What it has printed on the error channel so far."""
        return self.stderr_path.read_text(errors="surrogateescape")

    def send_signal(self, number: int) -> None:
        """Sends a signal to the program; nothing happens if it has ended."""
        self._popen.send_signal(number)

    def wait(self, timeout_s: float) -> int:
        """Waits for its end and returns the status. Raises LabError when it still runs after `timeout_s`."""
        try:
            return self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise LabError(f"still runs after {timeout_s:g} s: {self.describe()}") from None

    def wait_output(self, text: str, timeout_s: float) -> None:
        """Waits until it has printed `text`, on either channel.

        Raises LabError when it ends without, or has not after `timeout_s`.
        """

        def printed() -> bool:
            ended = self.status is not None
            if text in self.stdout or text in self.stderr:
                return True
            if ended:
                raise LabError(f"ended with status {self.status} and did not print {text!r}: {self.describe()}")
            return False

        wait_until(printed, f"{text!r} of {' '.join(self.argv)}", timeout_s)

    def kill(self) -> None:
        """Ends it with SIGKILL and waits for that."""
        self._popen.kill()
        self._popen.wait()

    def write(self, text: str) -> None:
        """Types on its terminal; the character \\x03 is Ctrl-C, \\x1a Ctrl-Z, \\x04 the end of input."""
        if self.terminal is None:
            raise LabError(f"was started without tty=True: {self.describe()}")
        os.write(self.terminal, text.encode())

    def read_terminal(self, until: str, timeout_s: float) -> str:
        """What the terminal showed up to and with `until`. Raises LabError when it did not come in `timeout_s`."""
        if self.terminal is None:
            raise LabError(f"was started without tty=True: {self.describe()}")
        seen, end = "", time.monotonic() + timeout_s
        while until not in seen:
            if not select.select([self.terminal], [], [], max(0.0, end - time.monotonic()))[0]:
                raise LabError(f"no {until!r} on the terminal within {timeout_s:g} s, but {seen!r}")
            try:
                seen += os.read(self.terminal, 4096).decode(errors="surrogateescape")
            except OSError:  # EIO: the last process on the other side is gone
                raise LabError(f"the terminal was closed before {until!r}, after {seen!r}") from None
        return seen

    def describe(self) -> str:
        """The command and the end of its output, for messages."""
        return f"{' '.join(self.argv)}\n{tail(self.stdout_path)}{tail(self.stderr_path)}"


def start(
    argv: Sequence[str],
    *,
    output: Path,
    inside: Namespaces | None = None,
    uid: int = 0,
    gid: int = 0,
    env: Mapping[str, str] | None = None,
    cwd: str = "/",
    text_in: str | None = None,
    stdin_fd: int | None = None,
    tty: bool = False,
    born_in: Namespaces | None = None,
    keep_fds: tuple[int, ...] = (),
) -> Process:
    """Starts a program, its output in `output`.out and `output`.err; with `tty`, a terminal takes all three channels.

    `inside` says whose namespaces it runs in, as `uid` and `gid`; `born_in`, whose PID namespace only. Descriptors of
    ours are closed for it but for `keep_fds`. Raises LabError when it cannot be started.
    """
    prefix: list[str] = []
    if inside is not None:
        prefix = _entry(inside, uid, gid, cwd, ["setsid", "--ctty"] if tty else [])
    out_path, err_path = output.with_name(output.name + ".out"), output.with_name(output.name + ".err")
    terminal, theirs = os.openpty() if tty else (None, None)
    with (
        out_path.open("wb") as out,
        err_path.open("wb") as err,
        _input(text_in, stdin_fd, output) as in_fd,
        _born_in(inside or born_in),
    ):
        try:
            popen = subprocess.Popen(
                [*prefix, *argv],
                stdin=in_fd if theirs is None else theirs,
                stdout=out if theirs is None else theirs,
                stderr=err if theirs is None else theirs,
                env=None if env is None else dict(env),
                cwd=cwd if inside is None else None,
                start_new_session=not tty,  # setsid(1) would fork if it led a session already
                pass_fds=keep_fds,
            )
        except OSError as error:
            raise LabError(f"cannot start {(prefix or argv)[0]}: {error.strerror}") from error
        finally:
            if theirs is not None:
                os.close(theirs)
    process = Process(popen, out_path, err_path, terminal)
    process.argv = tuple(argv)
    born = inside or born_in
    if born is not None:
        born.started.append(process)
    return process


def call(argv: Sequence[str], inside: Namespaces, *, uid: int, gid: int, env: Mapping[str, str], cwd: str) -> int:
    """Runs a program inside on our own terminal and returns its status."""
    with _born_in(inside):
        popen = subprocess.Popen([*_entry(inside, uid, gid, cwd), *argv], env=dict(env))
    while True:
        try:
            return popen.wait()
        except KeyboardInterrupt:
            continue  # the program got it too, and decides


def run_here(argv: Sequence[str], *, text_in: str = "", env_add: Mapping[str, str] | None = None) -> Completed:
    """Runs a program on this side to its end. Raises LabError when it cannot be started or fails."""
    env = {**os.environ, **(env_add or {})}
    try:
        done = subprocess.run(list(argv), input=text_in, capture_output=True, text=True, env=env, check=False)
    except OSError as error:
        raise LabError(f"cannot start {argv[0]}: {error.strerror}") from error
    if done.returncode != 0:
        raise LabError(f"{' '.join(argv)}: status {done.returncode}\n{done.stdout}{done.stderr}{text_in}")
    return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)


def wait_until(done: Callable[[], bool], what: str, timeout_s: float, pause_s: float = 0.01) -> None:
    """Waits until `done()` is true. Raises LabError naming `what` when it is not after `timeout_s`."""
    end = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > end:
            raise LabError(f"not within {timeout_s:g} s: {what}")
        time.sleep(pause_s)


def tail(path: Path, lines: int = 20) -> str:
    """The last lines of a file, or nothing when it is not there: for messages about what went wrong."""
    try:
        return "".join(f"{line}\n" for line in path.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def _entry(inside: Namespaces, uid: int, gid: int, cwd: str, middle: Sequence[str] = ()) -> list[str]:
    user = [] if uid == 0 else [f"--setuid={uid}", f"--setgid={gid}"]
    # env(1) changes the directory after the entry; nsenter would open it on this side.
    return [*inside.enter_argv(), *user, *middle, "env", f"--chdir={cwd}"]


def _tool(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise LabError(f"{name} is missing")
    return found


def _pid_namespace(pid: int, kind: str) -> int | None:
    try:
        return Path(f"/proc/{pid}/ns/{kind}").stat().st_ino
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # ended, or not of this lab


@contextmanager
def _input(text: str | None, fd: int | None, output: Path) -> Iterator[int]:
    if fd is not None:
        yield fd
        return
    path = Path(os.devnull)
    if text is not None:
        path = output.with_name(output.name + ".in")
        path.write_text(text, errors="surrogateescape")
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _born_in(inside: Namespaces | None) -> Iterator[None]:
    """Lets the children that this thread starts meanwhile be born in that PID namespace."""
    if inside is None:
        yield
        return
    own = os.open("/proc/thread-self/ns/pid", os.O_RDONLY)
    try:
        other = os.open(f"/proc/{inside.holder}/ns/pid_for_children", os.O_RDONLY)
    except FileNotFoundError:
        os.close(own)
        raise LabError("the host is off") from None
    try:
        _setns(other)
        try:
            yield
        finally:
            _setns(own)
    finally:
        os.close(other)
        os.close(own)


def _setns(fd: int) -> None:
    # os.setns exists from Python 3.12 on.
    if _LIBC.setns(fd, _CLONE_NEWPID) != 0:
        raise LabError(f"setns: {os.strerror(ctypes.get_errno())}: the lab needs root")
