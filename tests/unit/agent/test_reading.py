# SPDX-License-Identifier: Apache-2.0
"""What an agent makes of output files: an empty one is kept, one that is not there is told of in words, and nobody's
readers keep others waiting."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stepguard.agent.reading import _has_place
from stepguard.archive import spooled
from stepguard.archive.contents import output
from stepguard.archive.redaction import Redactor, load_rules
from unit.agent.agent_process import USER, AgentProcess, children, epilog, fields, prolog, wait_until

Make = Callable[..., AgentProcess]


def run_job(agent: AgentProcess, out: Path) -> None:
    identity = f"{out.stat().st_dev}:{out.stat().st_ino}:reg" if out.exists() else "1:2:reg"
    told = {"stdout": str(out), "stderr": str(out), "stdout_id": identity, "stderr_id": identity}
    agent.tell(prolog(7), fields("batch", 7, step_id="batch", script=b"#!", uid=USER, gid=USER))
    assert agent.ask_as(USER, fields("output", 7, **told)) == b"ok\n"
    agent.tell(fields("step_end", 7, step_id="batch"), epilog(7))
    wait_until(lambda: agent.is_complete("7.0"))


def test_an_empty_output_is_kept(agent: AgentProcess) -> None:
    out = agent.directory / "out"
    out.touch()
    run_job(agent, out)
    raw = spooled.read(agent.layout.jobs / "7.0").raw["stdout"]
    assert (raw.content, raw.meta["what"], raw.meta["why"], raw.meta["size_bytes"]) == (b"", "regular", "", 0)
    kept = output("stdout", raw.content, raw.meta, Redactor(b"k" * 32, load_rules(None, ())), [])
    assert (kept.kept.name, kept.kept.why, kept.stored is None) == ("stdout.zst", "", False)


def test_an_output_that_is_gone_is_told_of_in_words(agent: AgentProcess) -> None:
    run_job(agent, agent.directory / "gone")
    assert agent.meta("7.0", "stdout")["why"] == "No such file or directory (ENOENT)"


def _ended_job(agent: AgentProcess, job_id: int, uid: int, out: Path) -> None:
    told = {"stdout": str(out), "stderr": str(out), "stdout_id": "1:2:reg", "stderr_id": "1:2:reg"}
    owner = {"uid": uid, "gid": uid}
    agent.tell(
        fields("prolog", job_id, **owner),
        fields("batch", job_id, step_id="batch", script=b"#!", **owner),
        fields("output", job_id, **told),
        fields("step_end", job_id, step_id="batch"),
        fields("epilog", job_id, **owner),
    )


def test_readers_that_a_user_stops_keep_nobody_else_waiting(make_agent: Make, libexec: Path) -> None:
    """The reader of one user stops itself at once, as by a signal of theirs."""
    agent = make_agent()
    stopped = agent.directory / "read_as"
    stopped.write_text(f'#!/bin/sh\n[ "$1" != {USER} ] || kill -STOP $$\nexec {libexec}/read_as "$@"\n')
    stopped.chmod(0o755)
    out = agent.directory / "out"
    out.write_text("kept")
    agent = make_agent("output_read_s = 600", env={"STEPGUARD_LIBEXEC": str(agent.directory)}).start()
    for job_id in range(1, 21):
        _ended_job(agent, job_id, USER, out)
    for job_id, uid in ((21, 1001), (22, 1002)):
        _ended_job(agent, job_id, uid, out)
    for key in ("21.0", "22.0"):
        wait_until(partial(agent.is_complete, key), 60)
        assert (agent.layout.jobs / key / "stdout.raw").read_text() == "kept"
    assert not any(agent.is_complete(f"{job_id}.0") for job_id in range(1, 21))
    wait_until(lambda: agent.status()["readers"] == {"busy": 20, "hung": 0})
    assert len(children(agent.pid, str(USER))) == 8, "half of the places"
    for pid in children(agent.pid, str(USER)):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: agent.is_complete("1.0"))
    assert agent.meta("1.0", "stdout")["why"] == "the reader ended with status -9"


def test_nobody_gets_more_than_half_of_the_places_that_are_free() -> None:
    taken: list[Any] = []
    for uid in range(1, 9):
        while _has_place(uid, taken, 16):
            taken.append(SimpleNamespace(uid=uid))
    assert Counter(reader.uid for reader in taken) == {1: 8, 2: 4, 3: 2, 4: 1, 5: 1}
