# SPDX-License-Identifier: Apache-2.0
"""A fault of the agent's own, in whichever thread, ends it: half an agent would answer and keep nothing."""

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
            raise ValueError("injected")
    return real(*arguments)
os.{call} = faulty
"""


def _faulty(make_agent: Make, thread: str, call: str) -> tuple[AgentProcess, Path]:
    """An agent whose fault comes when the file is there."""
    directory = make_agent().directory
    fault = directory / "fault"
    (directory / "sitecustomize.py").write_text(_INJECTED.format(call=call, file=str(fault), thread=thread))
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
        assert agent.ask(prolog(8)) == b"", "nobody is told that it was kept"
    assert agent.process is not None
    assert agent.process.wait(20) == 1
    agent.process = None
    log = agent.log()
    assert "the agent ends by a fault of its own: Traceback" in log
    assert "ValueError: injected" in log
    fault.unlink()
    agent.start()
    assert agent.kinds("7.0") == ["prolog", "step_start"]
    agent.tell(fields("step_end", 7, step_id="0"), epilog(7))
    wait_until(lambda: agent.is_complete("7.0"))


def test_without_a_thread_to_spare_all_is_stored_all_the_same(agent: AgentProcess) -> None:
    """No room for a thread's stack in place of a full control group, which root could not fill for one process."""
    status = Path(f"/proc/{agent.pid}/status").read_text()
    size_kib = int(status.partition("VmSize:")[2].split()[0])
    resource.prlimit(agent.pid, resource.RLIMIT_AS, ((size_kib + 2048) << 10, resource.RLIM_INFINITY))
    agent.tell(prolog(7), epilog(7))
    wait_until(lambda: agent.is_complete("7.0"))
    assert agent.kinds("7.0") == ["prolog", "epilog"]
