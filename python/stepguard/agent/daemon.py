# SPDX-License-Identifier: Apache-2.0
"""The agent: one loop that never waits for a disk, a file server or a client.

socket → server → intake → storing (a thread) → spool → "ok"
notes ────────────^           └ settle: over? → ending → sources → reading (read_as) → spool, complete
                                                                  archiver (a process) ─┘→ archive
kernel's log, NVML, probes (processes) → health → verdict → reaction (a process)
"""

from __future__ import annotations

import contextlib
import os
import selectors
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from stepguard.agent import answers, reading
from stepguard.agent.archiver import Archiver, word
from stepguard.agent.attempts import Attempt
from stepguard.agent.devices import Devices
from stepguard.agent.ending import Ending
from stepguard.agent.health.keeper import Keeper
from stepguard.agent.holding import Holding, Socket, Spool
from stepguard.agent.intake import Intake, nobody_waits
from stepguard.agent.log import Log
from stepguard.agent.losses import Losses
from stepguard.agent.message import ASKING_KINDS, Message, read
from stepguard.agent.notes import Notes
from stepguard.agent.reserve import Reserve
from stepguard.agent.server import Connection, Server, raise_descriptor_limit
from stepguard.agent.service import Service
from stepguard.agent.signals import Signals
from stepguard.agent.slurmstepds import Slurmstepds
from stepguard.agent.storing import Refill, Storing
from stepguard.agent.usage import Usage
from stepguard.config import Config
from stepguard.errors import StepguardError
from stepguard.health.verdict import NodeVerdict
from stepguard.places import conflicts
from stepguard.records import wire
from stepguard.records.spool import AttemptKey, SpoolLayout
from stepguard.records.wire import MalformedMessage

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Where nothing at all has happened since the last tick and no attempt is open, the next one has time.
_TICK_S, _IDLE_TICK_S = 1.0, 2.0
# How long what was taken in may need to reach the disk when we are told to stop.
_STOP_S = 10.0
_MEND_S = 10.0


class Agent:
    """Holds the spool from its making to the end of the process. Making it raises StepguardError."""

    def __init__(self, config: Config, log: Log) -> None:
        if os.geteuid() != 0:
            raise StepguardError("the agent must be root", f"not uid {os.geteuid()}", "have systemd start it")
        for conflict in conflicts(config):
            raise conflict
        raise_descriptor_limit()
        self._config = config
        self._log = log
        self._fault_file = Path(config.resume.fault_file)
        self._socket_path = Path(config.agent.socket)
        self._layout = SpoolLayout(Path(config.agent.spool))
        self._spool = Spool(self._layout)
        self._boot_id = _BOOT_ID.read_text().strip()
        self._started_s = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._reserve = Reserve(self._layout.reserve, config.agent.spool_max_mib << 20, log)
        self._storing = Storing(self._reserve)
        self._mend_s = 0.0
        self._selector.register(self._storing.wakeup, selectors.EVENT_READ, lambda _: self._storing.finished())
        self._usage = Usage(self._layout, config.agent.spool_max_mib << 20, log)
        self._reading = reading.Reading(
            reading.program(), self._layout.root, config.agent.output_read_s, self._selector, log
        )
        sizes = (config.archive.head_kib << 10, config.archive.tail_kib << 10)
        self._ending = Ending(self._layout, self._storing, self._usage, self._reading, sizes, log, self._ended)
        self._intake = Intake(self._layout, self._storing, self._usage, log, self._settle)
        self._notes = Notes(self._layout.notes, self._boot_id, log)
        self._archiver = Archiver(config.path, self._selector, log)
        self._slurmstepds = Slurmstepds()
        self._health = Keeper(config, self._layout, self._boot_id, self._selector, self._storing, log)
        self._losses = Losses(self._layout, self._usage, self._intake, self._archiver, self._health, self._boot_id, log)
        self._devices = Devices(self._health, self._intake, self._layout, self._boot_id, self._settle)
        self._service = Service(os.environ, log)
        self._signals = Signals(self._selector, log)

    def run(self) -> int:
        """Serves until SIGTERM or SIGINT. Returns the exit status. Raises StepguardError when it cannot begin."""
        self._signals.catch()
        self._intake.rebuild()
        self._take_notes()
        at = Socket(self._socket_path)
        self._server = Server(at.listener, self._selector, self._take, self._log)
        self._holding = Holding(self._spool, at, self._server, self._log, self._losses.renewed)
        self._service.notify("READY=1")
        self._log.info(f"listens at {self._socket_path}, {len(self._intake.attempts)} attempts are open")
        self._serve()
        self._service.notify("STOPPING=1")
        with contextlib.suppress(OSError):
            at.remove()
        self._server.stop()
        self._archiver.stop()
        self._reading.stop()
        self._health.stop()
        self._finish_storing()
        self._log.info("stopped")
        return 0

    def _serve(self) -> None:
        ticked_s = tick_s = watchdog_s = 0.0
        while not self._signals.say_stop:
            now_s = time.monotonic()
            if now_s >= tick_s:
                self._tick()
                ticked_s, tick_s = now_s, now_s + (_TICK_S if self._intake.attempts else _IDLE_TICK_S)
            if 0 < self._service.watchdog_s <= now_s - watchdog_s:
                watchdog_s = now_s
                self._service.notify("WATCHDOG=1")
            self._health.turn()
            wait_s = min(tick_s, self._health.due_s) - time.monotonic()
            for key, events in self._selector.select(max(0.0, wait_s)):
                tick_s = min(tick_s, ticked_s + _TICK_S)
                if self._selector.get_map().get(key.fd) is key:  # an earlier one of these may have ended it
                    key.data(events)

    def _tick(self) -> None:
        self._holding.look()
        if any(attempt.is_doubtful(time.monotonic()) for attempt in self._intake.attempts):
            self._slurmstepds.look()
        try:
            self._take_notes()
            self._losses.look()
        except OSError as error:
            self._log.error(f"cannot look at the spool: {error}", "look")
        self._mend_spool()
        self._server.expire()
        self._reading.look()
        self._archiver.look()
        self._health.look([attempt.key for attempt in self._intake.attempts])
        self._devices.look()
        for attempt in self._intake.attempts:
            self._devices.look_at(attempt)
            self._settle(attempt)

    def _mend_spool(self) -> None:
        """Now and then, what a full disk has kept from it."""
        self._reserve.look()
        if (now_s := time.monotonic()) >= self._mend_s:
            self._mend_s = now_s + _MEND_S
            self._intake.retry()
            self._storing.put(Refill(self._reserve, self._layout.root))

    def _finish_storing(self) -> None:
        """Whoever waits for an answer gets it."""
        self._intake.retry()
        end_s = time.monotonic() + _STOP_S
        while self._storing.pending and time.monotonic() < end_s:
            for key, events in self._selector.select(0.1):
                if self._selector.get_map().get(key.fd) is key:
                    key.data(events)
        if self._intake.waiting_count:
            self._log.error(f"{self._intake.waiting_count} messages of jobs are lost: the spool did not take them")

    # -- messages --

    def _take_notes(self) -> None:
        for note in self._notes.found():
            self._intake.adopt(note, self._notes)

    def _take(self, connection: Connection, content: bytes) -> None:
        """One whole message of a client."""

        def take() -> None:
            fields = wire.decode(content)
            message = read(fields)
            if message.kind == "health_check" and connection.uid == 0:
                self._intake.counters["health_check"] += 1
                self._health.know_node(message.node)
                self._health.wake()
                self._server.answer(connection, b"ok\n")
            elif message.kind in ASKING_KINDS:
                self._answer(connection, message)
            else:
                self._keep(connection, message, fields, content)

        self._guard(connection, take)

    def _guard(self, connection: Connection, act: Callable[[], None]) -> None:
        """The broad catch of a request: it must not end the agent."""
        try:
            act()
        except MalformedMessage as error:
            self._server.refuse(connection, str(error))
        except OSError as error:
            self._log.error(f"cannot look at the spool: {error}", "look")
            self._server.refuse(connection, f"spool: {error.strerror}")
        except Exception:  # noqa: BLE001 - the boundary of a request
            self._log.error(f"a fault of stepguard's: {traceback.format_exc()}", "fault")
            self._server.refuse(connection, "a fault of the agent's, see its log")

    def _keep(self, connection: Connection, message: Message, fields: dict[str, bytes], content: bytes) -> None:
        why = self._intake.refusal(connection.uid, message)
        if why and connection.uid != 0:
            self._take_notes()  # what makes the job known may have been left there a moment ago
            why = self._intake.refusal(connection.uid, message)
        if why:
            self._server.refuse(connection, why)
            return

        is_prolog, has_gate = message.kind == "prolog", self._config.agent.gate

        def look() -> None:
            if is_prolog and not has_gate:
                self._begin(attempt.key, message, fields)
            self._devices.look_at(attempt)

        def kept(error: OSError | None) -> None:
            if error is not None:
                self._server.refuse(connection, f"spool: {error.strerror}")
            else:
                self._server.answer(connection, b"ok\n")
            self._guard(connection, look)  # now that nobody waits

        def failed(_error: OSError | None) -> None:
            line = f"fail {verdict}".encode(errors="replace")[: wire.REPLY_MAX_BYTES - 1]
            self._server.answer(connection, line.replace(b"\n", b" ") + b"\n")

        verdict = self._gate(message, fields) if is_prolog and has_gate else ""
        attempt = self._intake.keep(connection.uid, message, fields, content, nobody_waits if verdict else kept)
        if verdict:
            self._intake.find(attempt, answers.GATE, f"no job may start here: {verdict}", self._boot_id, failed)
            self._guard(connection, look)

    def _gate(self, message: Message, fields: dict[str, bytes]) -> str:
        """Why the job whose prolog this is may not start here; "" when it may."""
        key = self._intake.attempts.key_of(message)
        self._begin(key, message, fields)
        verdict = self._health.verdict_for(key)
        gate = answers.gate(self._fault_file, verdict, self._health.obstacle)
        if gate.doubt:
            self._log.warning(f"job {message.job_id} may start here, for {gate.doubt}", "gate")
        return gate.refusal

    def _begin(self, key: AttemptKey, message: Message, fields: dict[str, bytes]) -> None:
        self._health.know_node(message.node)
        self._health.begin(key, fields.get("environment", b""))

    def _answer(self, connection: Connection, message: Message) -> None:
        uid = connection.uid
        if message.kind == "verdict":
            own = self._intake.open_job_of(uid, message.job_id) if uid != 0 else None
            attempt = own or next(reversed(self._intake.attempts.of_job(message.job_id)), None)
            if uid != 0 and own is None:
                self._server.refuse(connection, f"job {message.job_id} is not yours, or not here, or over")
            else:
                verdict = self._health.verdict_for(attempt.key if attempt else None)
                is_told = answers.of_its_own(own, self._health.gpus_of(own.key)) if own else lambda _: True
                offences = self._health.offences()
                answer = answers.verdict(message.job_id, self._fault_file, verdict, offences, is_told)
                self._server.answer(connection, answer)
        elif message.kind == "health":
            told = self._health.document(is_root=uid == 0)
            self._server.answer(connection, answers.health(self._node(), told, is_root=uid == 0))
        elif uid != 0:
            self._server.answer(connection, answers.jobs_of(uid, list(self._intake.attempts)))
        else:
            self._server.answer(connection, answers.document(self._state()))

    def _node(self) -> NodeVerdict:
        return answers.with_fault_file(self._health.verdict(), self._fault_file)

    def _state(self) -> dict[str, object]:
        return {
            "pid": os.getpid(),
            "uptime_s": round(time.monotonic() - self._started_s, 1),
            "spool": {
                "used_bytes": self._usage.used_bytes,
                "bound_bytes": self._usage.bound_bytes,
                "not_kept": self._usage.not_kept,
                "trouble": self._holding.trouble,
            },
            "notes": self._notes.count(),
            "waiting": self._intake.waiting_count,
            "attempts": [answers.job(attempt) for attempt in self._intake.attempts],
            "connections": self._server.connection_count,
            "readers": {"busy": self._reading.count, "hung": self._reading.hung_count},
            "health": answers.in_short(self._node()),
            "kernel_log": self._health.document(is_root=True)["kernel_log"],
            "archiver": {"pid": self._archiver.pid, "word": word(self._layout.archiver_word)},
            "counters": {**self._intake.counters, "refused": self._server.refused_count},
        }

    # -- the ends of attempts --

    def _settle(self, attempt: Attempt) -> None:
        """Ends an attempt that is over."""
        now_s = time.monotonic()
        if attempt.is_finishing or attempt.unstored or attempt.awaits_look or now_s < attempt.not_before_s:
            return
        newest = self._intake.attempts.newest(attempt.key.job_id)
        why = attempt.over(now_s, self._boot_id, newest, self._slurmstepds.lives)
        if why:
            self._intake.close(attempt, why, self._boot_id)
        elif why is not None and not self._devices.look_again(attempt):
            self._ending.finish(attempt)

    def _ended(self, attempt: Attempt, marked_s: float) -> None:
        if attempt.last_s <= marked_s:
            self._intake.attempts.close(attempt)
