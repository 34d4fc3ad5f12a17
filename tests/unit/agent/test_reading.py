# SPDX-License-Identifier: Apache-2.0
"""What an agent makes of output files: an empty one is kept, and one that is not there is told of in words."""

from __future__ import annotations

from pathlib import Path

from stepguard.archive import spooled
from stepguard.archive.contents import output
from stepguard.archive.redaction import Redactor, load_rules
from unit.agent.agent_process import USER, AgentProcess, epilog, fields, prolog, wait_until


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
