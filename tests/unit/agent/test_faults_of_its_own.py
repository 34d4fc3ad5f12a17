# SPDX-License-Identifier: Apache-2.0
"""A fault of the agent's own, in whichever thread, ends it: half an agent would answer and keep nothing. And a disk
that fails after a message was written, which is no fault of the agent's."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from unit.agent.agent_process import AgentProcess, epilog, fields, prolog, wait_until

Make = Callable[..., AgentProcess]
# Python imports it at its start. The call of the system's raises what no call of the system should, in that thread.
_INJECTED = """
import os, threading, time
real = os.{call}
def faulty(*arguments):
    if os.path.exists({file!r}):
        time.sleep(0.1)  # so that others get their share of the work
        if threading.current_thread().name == {thread!r}:
            raise {error}
    return real(*arguments)
os.{call} = faulty
"""


def _faulty(
    make_agent: Make, thread: str, call: str, error: str = 'ValueError("injected")'
) -> tuple[AgentProcess, Path]:
    """An agent whose fault comes when the file is there."""
    directory = make_agent().directory
    fault = directory / "fault"
    (directory / "sitecustomize.py").write_text(
        _INJECTED.format(call=call, file=str(fault), thread=thread, error=error)
    )
    return make_agent(env={"PYTHONPATH": str(directory)}).start(), fault


@pytest.mark.parametrize(
    ("thread", "call"), [("storing", "fsync"), ("syncing", "fsync"), ("storing", "open"), ("MainThread", "listdir")]
)
def test_a_fault_in_any_thread_ends_the_agent_and_loses_nothing(make_agent: Make, thread: str, call: str) -> None:
    agent, fault = _faulty(make_agent, thread, call)
    agent.tell(prolog(7), fields("step_start", 7, step_id="0"))
    fault.touch()
    if thread == "MainThread":
        (agent.layout.notes / "new").touch()
    else:
        answer = agent.ask(prolog(8))
        # The thread may still be at the syncs of what was told before.
        assert answer in ((b"ok\n", b"") if call == "fsync" else (b"",))
    assert agent.process is not None
    assert agent.process.wait(20) == 1
    agent.process = None
    log = agent.log()
    assert "the agent ends by a fault of its own: Traceback" in log
    assert "ValueError: injected" in log
    fault.unlink()
    agent.start()
    assert agent.kinds("7.0") == ["prolog", "step_start"]
    assert thread == "MainThread" or agent.kinds("8.0") == (["prolog"] if answer else []), "nobody was lied to"
    agent.tell(fields("step_end", 7, step_id="0"), epilog(7))
    wait_until(lambda: agent.is_complete("7.0"))


def test_a_disk_that_fails_after_the_answer(make_agent: Make) -> None:
    agent, fault = _faulty(make_agent, "storing", "fsync", 'OSError(5, "Input/output error")')
    fault.touch()
    agent.tell(prolog(8))
    wait_until(lambda: "tried again, if the agent lives that long" in agent.log())
    # In the middle of a try, the file is there for a moment.
    wait_until(lambda: (agent.kinds("8.0"), agent.status()["waiting"]) == ([], 1))
    fault.unlink()
    assert agent.stop() == 0
    assert agent.kinds("8.0") == ["prolog"]


def test_without_a_thread_to_spare_all_is_stored_all_the_same(agent: AgentProcess) -> None:
    """No room for a thread's stack in place of a full control group, which root could not fill for one process."""
    status = Path(f"/proc/{agent.pid}/status").read_text()
    size_kib = int(status.partition("VmSize:")[2].split()[0])
    resource.prlimit(agent.pid, resource.RLIMIT_AS, ((size_kib + 2048) << 10, resource.RLIM_INFINITY))
    agent.tell(prolog(7), epilog(7))
    wait_until(lambda: agent.is_complete("7.0"))
    assert agent.kinds("7.0") == ["prolog", "epilog"]
