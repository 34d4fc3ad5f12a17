# SPDX-License-Identifier: Apache-2.0
"""The process that forks one for each probe: `python -I -m stepguard.health.forkserver`, its stdin the socket on which
it is asked.

It has imported what probes need, so that a probe costs a fork and not a Python. It opens no driver and no device, and
has no thread; it waits for no child. It ends with whoever started it, and ends all children.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
from typing import NoReturn

from stepguard.health import probe_child
from stepguard.health.probe_request import BadRequest, Request, Word, receive, tell
from stepguard.health.probes.table import PROBES


class Fork:
    """A child. Its pid is nobody else's until it is reaped."""

    def __init__(self, name: str, pid: int, word: int) -> None:
        self.name = name
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.word = word

    def kill(self) -> None:
        """And what it has started. It may not have a session of its own yet, and tools may be setuid."""
        for kill in (os.kill, os.killpg):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)

    def reap(self) -> int:
        """The exit status of one that has ended; what it left behind is killed."""
        self.kill()
        os.close(self.pidfd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Forkserver:
    """`run` never returns."""

    def __init__(self, asked: socket.socket) -> None:
        self._asked = asked
        self._waiting = select.poll()
        self._waiting.register(asked, select.POLLIN)
        # By the descriptors that tell of them: of its end, and that nobody waits for word of that any more.
        self._by_pidfd: dict[int, Fork] = {}
        self._by_word: dict[int, Fork] = {}

    def run(self) -> NoReturn:
        while True:
            ready = {descriptor for descriptor, _ in self._waiting.poll()}
            # Before requests: the last child of a name that is asked for again may just have ended.
            for pidfd in ready & self._by_pidfd.keys():
                self._reap(pidfd)
            for word in ready & self._by_word.keys():
                self._by_word[word].kill()
                self._forget_word(word)
            if self._asked.fileno() in ready:
                self._take()

    def _take(self) -> None:
        try:
            request = receive(self._asked)
        except BadRequest as error:
            print(f"stepguard: the forkserver of probes does not know what it is asked for: {error}", file=sys.stderr)
            return
        if request is None:
            self._end()
        lives = next((fork.pid for fork in self._by_pidfd.values() if fork.name == request.name), None)
        said = self._fork(request) if lives is None else Word(lives=lives)
        if said is not None:
            tell(request.word, said)
            os.close(request.word)
        os.close(request.output)
        os.close(request.errors)

    def _fork(self, request: Request) -> Word | None:
        """None: it runs, and its end is told later."""
        _preload(request.name)
        own = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            return Word(error=f"it cannot be started: fork: {error.strerror}")
        if pid == 0:
            probe_child.run(request, own)
        fork = Fork(request.name, pid, request.word)
        self._by_pidfd[fork.pidfd] = self._by_word[fork.word] = fork
        self._waiting.register(fork.pidfd, select.POLLIN)
        self._waiting.register(fork.word, 0)  # POLLERR is always told: nobody reads it any more
        return None

    def _reap(self, pidfd: int) -> None:
        self._waiting.unregister(pidfd)
        fork = self._by_pidfd.pop(pidfd)
        status = fork.reap()
        if self._by_word.get(fork.word) is fork:
            tell(fork.word, Word(status=status))
            self._forget_word(fork.word)

    def _forget_word(self, word: int) -> None:
        self._waiting.unregister(word)
        del self._by_word[word]
        os.close(word)

    def _end(self) -> NoReturn:
        for fork in self._by_pidfd.values():
            fork.kill()
        os._exit(0)


def _preload(name: str) -> None:
    """Imports what a probe needs, the first time. What cannot be imported is told by the child, which tries again."""
    known = PROBES.get(name)
    if known is None or known.module in sys.modules:
        return
    with contextlib.suppress(Exception):
        for module in (*known.preloads, known.module):
            importlib.import_module(module)
    # Else a collection in a child would write to all of what is imported here, and so copy it.
    gc.freeze()


def main() -> NoReturn:
    asked = socket.socket(fileno=os.dup(0))
    devnull = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(devnull, 0)
    os.close(devnull)
    os.chdir("/")
    Forkserver(asked).run()


if __name__ == "__main__":
    main()
