# SPDX-License-Identifier: Apache-2.0
"""A spool that is full, by its own bound or by its disk: said, degraded in order, and never the end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stepguard.records import spool, wire
from unit.agent.agent_process import USER, AgentProcess, epilog, fields, prolog, wait_until

Make = Callable[..., AgentProcess]


def _script(job_id: int, size_bytes: int) -> dict[str, bytes]:
    return fields("batch", job_id, step_id="batch", script=b"x" * size_bytes, environment=b"A=1\0", uid=USER, gid=USER)


def test_a_full_disk_is_refused_and_survived(make_agent: Make) -> None:
    agent = make_agent()
    agent.layout.root.mkdir(mode=0o700)
    mount = f'mount -t tmpfs -o size=2m,mode=700 none {agent.layout.root} && exec "$@"'
    agent.start("unshare", "--mount", "--", "sh", "-c", mount, "sh")
    inside = Path(f"/proc/{agent.pid}/root{agent.layout.root}")
    agent.tell(prolog(7))
    filler = inside / "filler"
    filler.write_bytes(bytes(1 << 20))
    assert agent.ask(_script(7, 2 << 20)) == b"refused spool: No space left on device\n"
    assert agent.ask(_script(8, 2 << 20)) == b"refused spool: No space left on device\n"
    assert [path.name for path in (inside / "jobs/7.0").iterdir()] == ["000001.prolog"], "nothing half is left"
    assert agent.log().count("does not take") == 1, "said once a minute"
    descriptor = os.open(filler, os.O_WRONLY | os.O_APPEND)
    with pytest.raises(OSError, match="No space"):
        while os.write(descriptor, bytes(4096)):
            pass
    os.close(descriptor)
    assert agent.ask(epilog(7)).startswith((b"refused spool", b"ok"))
    filler.unlink()
    agent.tell(prolog(9), epilog(9), epilog(7), epilog(8))
    wait_until(lambda: (inside / "jobs/7.0/complete").exists() and (inside / "jobs/9.0/complete").exists(), 25)
    wait_until(lambda: agent.status()["attempts"] == [])


def test_what_goes_first_when_the_bound_is_near(make_agent: Make) -> None:
    agent = make_agent("spool_max_mib = 16", more="tail_kib = 4096\nhead_kib = 0\n").start()
    out = agent.directory / "out"
    out.write_bytes(bytes(1 << 20))
    stdout = {"stdout": str(out), "stderr": str(out), "stdout_id": "1:1:reg", "stderr_id": "1:1:reg"}

    def run(job_id: int, size_bytes: int) -> None:
        agent.tell(prolog(job_id), _script(job_id, size_bytes))
        assert agent.ask_as(USER, fields("output", job_id, **stdout)) == b"ok\n"
        agent.tell(fields("step_end", job_id, step_id="batch"), epilog(job_id))
        wait_until(lambda: agent.is_complete(f"{job_id}.0"))

    def script_of(job_id: int) -> dict[str, bytes]:
        (path,) = [path for _, kind, path in spool.messages(agent.layout.jobs / f"{job_id}.0") if kind == "batch"]
        return wire.decode(path.read_bytes())

    for job_id in (1, 2, 3):
        run(job_id, 3 << 20)
    assert (agent.layout.jobs / "3.0/stdout.raw").stat().st_size == 1 << 20
    run(4, 1 << 20)
    assert "script" in script_of(4)
    assert agent.meta("4.0", "stdout")["why"] == "the spool is nearly full"
    assert not (agent.layout.jobs / "4.0/stdout.raw").exists()
    run(5, 2 << 20)
    assert (script_of(5)["dropped"], script_of(5).get("script")) == (b"script environment", None)
    assert agent.kinds("5.0") == ["prolog", "batch", "output", "step_end", "epilog"]
    assert "output of jobs is no longer kept" in agent.log()

    for job_id in (1, 2, 3):
        directory = agent.layout.jobs / f"{job_id}.0"
        assert spool.forget(directory, [path.name for path in directory.iterdir()])
    wait_until(lambda: "everything is kept again" in agent.log())
    run(6, 1 << 20)
    assert (agent.layout.jobs / "6.0/stdout.raw").exists() and "script" in script_of(6)
