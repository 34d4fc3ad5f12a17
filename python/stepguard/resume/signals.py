# SPDX-License-Identifier: Apache-2.0
"""Signals that reach the supervisor go on to srun, as if srun had been started itself.

The supervisor and srun share a process group and the terminal, so what the terminal sends (Ctrl-C, Ctrl-Z)
reaches both: only what was sent to the supervisor alone is passed on. siginfo tells the two apart.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time

RELAYED = frozenset(
    {
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGALRM,
        signal.SIGCONT,
        signal.SIGTSTP,
        signal.SIGWINCH,
    }
)
# Whoever sends one of these wants the step to end.
ENDING = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})

# Between two looks for signals while nothing else is waited for.
_TURN_S = 0.1
# si_code of a signal that the kernel (the terminal) sent; sigaction(2).
_SI_KERNEL = 0x80


class SignalInbox:
    """Takes the relayed signals from now on. `fileno()` is readable when `take` has something."""

    def __init__(self) -> None:
        self._received: queue.SimpleQueue[tuple[int, bool]] = queue.SimpleQueue()
        self._readable, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.pthread_sigmask(signal.SIG_BLOCK, RELAYED)
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        while True:
            info = signal.sigwaitinfo(RELAYED)
            self._received.put((info.si_signo, info.si_code == _SI_KERNEL))
            os.write(self._wake, b"!")

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._readable

    def take(self) -> list[tuple[int, bool]]:
        """What came since the last call: the signal, and whether the terminal sent it (so srun has it too)."""
        try:
            os.read(self._readable, 4096)
        except BlockingIOError:
            return []
        taken = []
        while not self._received.empty():
            taken.append(self._received.get_nowait())
        return taken


class Patience:
    """Waits between attempts, when signals have no srun to go to, until somebody wants the step to end."""

    def __init__(self, inbox: SignalInbox) -> None:
        self._inbox = inbox
        self.interrupted_by: int | None = None

    def pause(self, seconds: float) -> bool:
        """Waits; False once somebody wants the step to end."""
        end_s = time.monotonic() + seconds
        while self.interrupted_by is None:
            for number, _ in self._inbox.take():
                if number in ENDING:
                    self.interrupted_by = number
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                break
            time.sleep(min(left_s, _TURN_S))
        return self.interrupted_by is None

    def interrupted_status(self) -> int:
        """The exit status for that, as a shell gives it; SIGTERM's where it was Slurm that was to end us."""
        return 128 + (self.interrupted_by or signal.SIGTERM)
