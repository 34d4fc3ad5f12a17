# SPDX-License-Identifier: Apache-2.0
"""The agent is killed at any instant: what it had acknowledged is there, whole, and told to the next one."""

from __future__ import annotations

import random
import signal
import threading
import time

from stepguard.records import spool, wire
from unit.agent.agent_process import AgentProcess, epilog, fields, prolog, wait_until

_ROUNDS = 25
_SENDERS = 6


class _Sender:
    """Jobs one after another, told to an agent that comes and goes."""

    def __init__(self, agent: AgentProcess, number: int) -> None:
        self.acknowledged: dict[int, list[str]] = {}
        self._agent = agent
        self._number = number
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        job_id = 100_000 * (1 + self._number)
        while not self._stop.is_set():
            job_id += 1
            self._tell(job_id, prolog(job_id))
            self._tell(job_id, fields("step_start", job_id, step_id="0", argv=bytes(20_000)))
            self._tell(job_id, fields("step_end", job_id, step_id="0"))
            if job_id % 2:
                self._tell(job_id, epilog(job_id))

    def _tell(self, job_id: int, message: dict[str, bytes]) -> None:
        try:
            answer = self._agent.ask(message)
        except OSError:
            time.sleep(0.01)
            return
        if answer == b"ok\n":
            self.acknowledged.setdefault(job_id, []).append(message["kind"].decode())


def test_nothing_acknowledged_is_lost(agent: AgentProcess) -> None:
    senders = [_Sender(agent, number) for number in range(_SENDERS)]
    source = random.Random(11)
    try:
        for _ in range(_ROUNDS):
            time.sleep(0.05 + source.random() / 2)
            agent.stop(signal.SIGKILL)
            agent.start(wait=False)
            wait_until(agent.socket.exists)
        wait_until(agent.answers)
        time.sleep(0.2)
    finally:
        for sender in senders:
            sender.end()
    acknowledged = {job_id: kinds for sender in senders for job_id, kinds in sender.acknowledged.items()}
    assert sum(map(len, acknowledged.values())) > _ROUNDS, "whatever the machine is like"
    open_jobs = {attempt["job_id"] for attempt in agent.status()["attempts"] if not attempt["is_ending"]}
    for job_id, kinds in acknowledged.items():
        found = spool.messages(agent.layout.jobs / f"{job_id}.0")
        for _, kind, path in found:
            assert wire.decode(path.read_bytes())["kind"].decode() == kind
        # One that was kept but not acknowledged may be there besides.
        missing = list(kinds)
        for _, kind, _ in found:
            if missing and missing[0] == kind:
                missing.pop(0)
        assert not missing, f"job {job_id}: {kinds} was acknowledged"
        if "epilog" in kinds:
            wait_until(lambda job_id=job_id: agent.is_complete(f"{job_id}.0"))  # type: ignore[misc]
        elif "prolog" in kinds and not any(kind == "epilog" for _, kind, _ in found):
            assert job_id in open_jobs
    left = [path for path in agent.layout.jobs.glob("*/.*") if time.time() - path.stat().st_mtime > 5]
    assert not left
