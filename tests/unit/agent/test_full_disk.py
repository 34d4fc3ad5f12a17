# SPDX-License-Identifier: Apache-2.0
"""A spool that is full, by its own bound or by its disk: said, degraded in order, and never the end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stepguard.records import spool, wire
from unit.agent.agent_process import (
    USER,
    AgentProcess,
    environment,
    epilog,
    fields,
    prolog,
    told_kinds,
    wait_until,
)

Make = Callable[..., AgentProcess]


def _script(job_id: int, size_bytes: int) -> dict[str, bytes]:
    words = environment(A="1", SLURM_JOB_NAME="train")
    return fields("batch", job_id, step_id="batch", script=b"x" * size_bytes, environment=words, uid=USER, gid=USER)


def _on_small_disk(agent: AgentProcess) -> Path:
    """Starts it with a spool of 2 MiB, and returns the path at which that is seen from here."""
    agent.layout.root.mkdir(mode=0o700)
    mount = f'mount -t tmpfs -o size=2m,mode=700 none {agent.layout.root} && exec "$@"'
    agent.start("unshare", "--mount", "--", "sh", "-c", mount, "sh")
    return Path(f"/proc/{agent.pid}/root{agent.layout.root}")


def _fill(file: Path) -> None:
    """Takes all that the disk has."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with pytest.raises(OSError, match="No space"):
        while os.write(descriptor, bytes(4096)):
            pass
    os.close(descriptor)


def _whole_job(agent: AgentProcess, job_id: int) -> list[bytes]:
    """All messages of a job of one step; what was answered."""
    stdout = {"stdout": "/dev/null", "stderr": "/dev/null", "stdout_id": "1:1:chr", "stderr_id": "1:1:chr"}
    return [
        agent.ask(message)
        for message in (
            prolog(job_id),
            _script(job_id, 300_000),
            fields("output", job_id, **stdout),
            fields("step_start", job_id, step_id="0", uid=USER, gid=USER),
            fields("step_end", job_id, step_id="0", uid=USER),
            fields("step_end", job_id, step_id="batch", uid=USER),
            epilog(job_id),
        )
    ]


def test_a_job_on_a_full_disk_lives_on_the_reserve(make_agent: Make) -> None:
    agent = make_agent()
    inside = _on_small_disk(agent)
    reserve = inside / "reserve"
    assert wait_until(lambda: reserve.exists() and reserve.stat().st_size) == 256 << 10
    _fill(inside / "filler")
    assert _whole_job(agent, 7) == [b"ok\n"] * 7
    wait_until(lambda: (inside / "jobs/7.0/complete").exists())
    kinds = told_kinds(inside / "jobs/7.0")
    assert kinds == ["prolog", "batch", "output", "step_start", "step_end", "step_end", "epilog"]
    batch = wire.decode((inside / "jobs/7.0/000002.batch").read_bytes())
    assert (batch["dropped"], batch["uid"], "script" in batch) == (b"script environment", b"%d" % USER, False)
    assert batch["facts"] == b"SLURM_JOB_NAME=train\0"
    wait_until(lambda: "is full: only small messages are kept" in agent.log())
    assert (inside / "jobs/7.0/stdout.meta").exists()
    (inside / "filler").unlink()
    wait_until(lambda: reserve.stat().st_size == 256 << 10)
    wait_until(lambda: "has room again" in agent.log())
    assert not list(inside.rglob(".*.new"))


def test_what_not_even_the_reserve_takes_waits_in_memory(make_agent: Make) -> None:
    agent = make_agent()
    inside = _on_small_disk(agent)
    wait_until((inside / "reserve").exists)
    (inside / "reserve").unlink()
    _fill(inside / "filler")
    answers = _whole_job(agent, 7)
    assert answers.count(b"refused spool: No space left on device\n") == 7
    assert agent.status()["waiting"] == 7
    assert [a["job_id"] for a in agent.status()["attempts"]] == [7], "it is not forgotten"
    (inside / "filler").unlink()
    wait_until(lambda: (inside / "jobs/7.0/complete").exists(), 25)
    kinds = told_kinds(inside / "jobs/7.0")
    assert kinds == ["prolog", "batch", "output", "step_start", "step_end", "step_end", "epilog"]
    wait_until(lambda: (agent.status()["attempts"], agent.status()["waiting"]) == ([], 0))
    assert agent.log().count("does not take") == 1, "said once a minute"


def test_an_agent_starts_on_a_full_disk(make_agent: Make) -> None:
    """What waits in the spool is known then, and goes on."""
    agent = make_agent()
    agent.layout.root.mkdir(mode=0o700)
    (agent.directory / "told").mkdir(mode=0o700)
    make = "mkdir -m 700 $0/notes $0/jobs; echo 1234567 >$0/lock; dd if=/dev/zero of=$0/filler bs=4k 2>/dev/null"
    mount = f'mount -t tmpfs -o size=64k,mode=700 none "$0" && {make}; exec "$@"'
    agent.start("unshare", "--mount", "--", "sh", "-c", mount, str(agent.layout.root))
    assert agent.status()["attempts"] == []
    lock = Path(f"/proc/{agent.pid}/root{agent.layout.lock}")
    assert lock.read_text() == f"{agent.pid}\n"


def test_outputs_that_end_at_the_same_time_take_no_room_from_scripts(make_agent: Make) -> None:
    agent = make_agent("spool_max_mib = 16", more="tail_kib = 1024\nhead_kib = 128\n").start()
    job_ids = range(1, 31)
    out = agent.directory / "out"
    out.write_bytes(bytes(2 << 20))
    stdout = {"stdout": str(out), "stderr": str(out), "stdout_id": "1:1:reg", "stderr_id": "1:1:reg"}
    for job_id in job_ids:
        agent.tell(prolog(job_id), _script(job_id, 1000), fields("output", job_id, **stdout))
    for job_id in job_ids:
        agent.tell(fields("step_end", job_id, step_id="batch"))
    ends = [agent.connect() for _ in job_ids]
    for client, job_id in zip(ends, job_ids, strict=True):
        client.sendall(wire.encode(epilog(job_id)))
    for client in ends:
        client.close()
    wait_until(lambda: all(agent.is_complete(f"{job_id}.0") for job_id in job_ids), 60)
    kept = len(list(agent.layout.jobs.glob("*/stdout.raw")))
    assert kept == 11, "of 1152 KiB each, within 80 % of 16 MiB"
    used_bytes = sum(file.stat().st_size for file in agent.layout.jobs.glob("*/*"))
    assert agent.status()["spool"]["used_bytes"] == used_bytes < 0.85 * (16 << 20)
    agent.tell(_script(31, 300_000))
    assert agent.status()["counters"].get("dropped_content") is None


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
    log = agent.log()
    assert "with what is to be stored: above 80% no more output of jobs can be kept" in log
    assert agent.status()["spool"]["not_kept"] == "scripts, environments and output of jobs"

    for job_id in (1, 2, 3):
        directory = agent.layout.jobs / f"{job_id}.0"
        assert spool.forget(directory, [path.name for path in directory.iterdir()])
    wait_until(lambda: "everything is kept again" in agent.log())
    run(6, 1 << 20)
    assert (agent.layout.jobs / "6.0/stdout.raw").exists() and "script" in script_of(6)
