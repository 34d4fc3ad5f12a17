# SPDX-License-Identifier: Apache-2.0
"""The only place of the lab that starts programs: on this side, or inside the namespaces of a host.

A program inside is entered by `nsenter`, which replaces itself by it: what we hold is the program itself, so its
signals, stops and status are true. That is also why it is born in the host's PID namespace: nsenter would have to
fork to enter that, and then it would be nsenter that a Ctrl-C meets.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.namespaces import Namespaces

_TERMINAL_SIZE = (24, 80)


@dataclass(frozen=True)
class Completed:
    """A program that ended: its exit status (negative: ended by that signal) and what it printed."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str


class Process:
    """A program that was started. Its output goes to files, which can be read while it runs."""

    def __init__(
        self, popen: subprocess.Popen[bytes], argv: Sequence[str], output: Path, terminal: int | None = None
    ) -> None:
        self._popen = popen
        self.argv = tuple(argv)
        self.pid = popen.pid
        self.stdout_path = output.with_name(output.name + ".out")
        self.stderr_path = output.with_name(output.name + ".err")
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
        """Ends it, and what it has started in its process group, with SIGKILL; waits for its end."""
        if self.status is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._popen.wait()

    def write(self, text: str) -> None:
        """Types on its terminal; the character \\x03 is Ctrl-C, \\x1a Ctrl-Z, \\x04 the end of input."""
        os.write(self._terminal(), text.encode())

    def read_terminal(self, until: str, timeout_s: float) -> str:
        """What the terminal showed up to and with `until`. Raises LabError when it did not come in `timeout_s`."""
        terminal, seen, end = self._terminal(), "", time.monotonic() + timeout_s
        while until not in seen:
            if not select.select([terminal], [], [], max(0.0, end - time.monotonic()))[0]:
                raise LabError(f"no {until!r} on the terminal within {timeout_s:g} s, but {seen!r}")
            try:
                seen += os.read(terminal, 4096).decode(errors="surrogateescape")
            except OSError:  # EIO: the last process on the other side is gone
                raise LabError(f"the terminal was closed before {until!r}, after {seen!r}") from None
        return seen

    def hang_up(self) -> None:
        """Closes its terminal, as when a connection is lost: its session gets SIGHUP."""
        if self.terminal is not None:
            os.close(self.terminal)
            self.terminal = None

    def describe(self) -> str:
        """The command and the end of its output, for messages."""
        return f"{' '.join(self.argv)}\n{tail(self.stdout_path)}{tail(self.stderr_path)}"

    def await_raw_terminal(self, timeout_s: float) -> None:
        """Waits until the terminal passes on what is typed, Ctrl-C too, as for `srun --pty`; before, the keys are
        signals. Raises LabError."""
        terminal = self._terminal()
        wait_until(lambda: not termios.tcgetattr(terminal)[3] & termios.ICANON, "the terminal is raw", timeout_s)

    def _terminal(self) -> int:
        if self.terminal is None:
            raise LabError(f"has no terminal: {self.describe()}")
        return self.terminal


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
    terminal, theirs = _new_terminal() if tty else (None, None)
    process_of = inside or born_in
    command = [*(_entry(inside, uid, gid, cwd, tty) if inside else []), *argv]
    out_path, err_path = output.with_name(output.name + ".out"), output.with_name(output.name + ".err")
    with (
        out_path.open("wb") as out,
        err_path.open("wb") as err,
        _input(text_in, stdin_fd, output) as in_fd,
        process_of.children() if process_of else nullcontext(),
    ):
        try:
            popen = subprocess.Popen(
                command,
                stdin=in_fd if theirs is None else theirs,
                stdout=out if theirs is None else theirs,
                stderr=err if theirs is None else theirs,
                env=None if env is None else dict(env),
                start_new_session=not tty,  # setsid(1) would fork if it led a session already
                pass_fds=keep_fds,
            )
        except OSError as error:
            raise LabError(f"cannot start {command[0]}: {error.strerror}") from error
        finally:
            if theirs is not None:
                os.close(theirs)
    if process_of is not None:
        process_of.started.append(popen)
    return Process(popen, argv, output, terminal)


def call(argv: Sequence[str], inside: Namespaces, *, uid: int, gid: int, env: Mapping[str, str], cwd: str) -> int:
    """Runs a program inside on our own terminal and returns its status."""
    with inside.children():
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


def wait_until(done: Callable[[], object], what: str, timeout_s: float, pause_s: float = 0.01) -> None:
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


def _entry(inside: Namespaces, uid: int, gid: int, cwd: str, tty: bool = False) -> list[str]:
    """What goes before a program inside, each word of it replaced by the next: no process stays between."""
    user = [] if uid == 0 else [f"--setuid={uid}", f"--setgid={gid}"]
    # env(1) changes the directory after the entry; nsenter would open it on this side.
    return [*inside.entry(), *user, *(["setsid", "--ctty"] if tty else []), "env", f"--chdir={cwd}"]


def _new_terminal() -> tuple[int, int]:
    terminal, theirs = os.openpty()
    termios.tcsetwinsize(theirs, _TERMINAL_SIZE)
    return terminal, theirs


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
