# SPDX-License-Identifier: Apache-2.0
"""`stepguard health check`, `status`: this node, looked at now, and as its agent knows it. `react` is for the agent."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepguard.cli.output import tell
from stepguard.escaping import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepguard.config import Config
    from stepguard.health.model import Report

SCHEMA = 1
_UNKNOWN = 3
_MIN_S, _HOUR_S, _DAY_S = 60, 3600, 86400
_EXIT_STATUS = """
\b
EXIT STATUS:
  0  nothing is wrong
  1  warning: something to look at
  2  failed: hardware to reset or replace, or a node to reboot; or the command line is wrong
  3  unknown: it does not tell
"""


@click.command(short_help="Run the probes of this node now.")
@click.option("--probe", "names", multiple=True, metavar="NAME", help="Only this one; may be given several times.")
@click.option("--stress", is_flag=True, help="Load processors, disk, GPUs and links too: by root, without jobs.")
@click.option("--force", is_flag=True, help="Load the node also where jobs run.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def check(names: Sequence[str], stress: bool, force: bool, as_json: bool) -> int:
    from stepguard import config
    from stepguard.errors import UsageError
    from stepguard.health.model import worst
    from stepguard.health.probes.document import to_document
    from stepguard.health.probes.settings import Settings
    from stepguard.health.probes.table import ON_DEMAND, PROBES, configured, entry
    from stepguard.health.probing import Probes, probe
    from stepguard.report.screen import stdout_screen, write_json, write_lines

    for name in names:
        if name not in PROBES:
            raise UsageError(f"no probe {quoted(name)}", "--probe", "there are: " + ", ".join(PROBES))
    settings = config.load()
    if stress:
        from stepguard.cli.stress_leave import check_leave

        check_leave(settings, force)
    wanted = [*dict.fromkeys(names or configured(settings.health)), *(ON_DEMAND if stress else ())]
    state = _memory(settings)
    with contextlib.closing(Probes()) as probes:
        reports = [
            probe(
                name,
                Settings.of(settings.health, entry(name).deadline_s, state),
                _progress(name) if name in ON_DEMAND else None,
                probes,
            )
            for name in wanted
        ]
    verdict = worst(report.status for report in reports)
    if as_json:
        write_json({"schema": SCHEMA, "status": verdict, "probes": [to_document(report) for report in reports]})
    else:
        screen = stdout_screen()
        write_lines(_report_lines(reports, screen.text), screen)
    return verdict.exit_status


check.help = f"""Look at this node's devices now, each source in a process with a deadline, and say what is wrong.
It goes by [health] of the configuration. The agent's verdict is not asked for, and does not change.
{_EXIT_STATUS}"""


@click.command(short_help="What this node's agent knows of its health.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def status(as_json: bool) -> int:
    from stepguard import config
    from stepguard.health.model import Status
    from stepguard.records.asking import ask
    from stepguard.report.screen import stdout_screen, write_json, write_lines

    path = Path(config.load().agent.socket)
    answer = ask(path, "health")
    if isinstance(answer, str):
        tell(f"the agent of this node does not tell: {path}: {answer}")
        return _UNKNOWN
    try:
        exit_status = Status(answer["status"]).exit_status
        if as_json:
            write_json(answer)
        else:
            screen = stdout_screen()
            write_lines(_status_lines(answer, screen.text), screen)
        return exit_status
    except (KeyError, TypeError, ValueError) as error:
        tell(f"the agent of this node says what is not known here: {error!r}")
        return _UNKNOWN


status.help = f"""Say what the agent of this node knows of its health: the verdict, what it rests on, when each source
was last heard, and what was done in Slurm.
{_EXIT_STATUS}"""


@click.command(hidden=True)
def react() -> int:
    """Do to the node in Slurm what its health asks for: what the agent starts, a question on stdin."""
    from stepguard import config
    from stepguard.health.reacting import react as carried_out
    from stepguard.report.screen import write_json
    from stepguard.slurm import connect

    settings = config.load()
    write_json(carried_out(json.load(sys.stdin), settings.health, connect(settings.slurm)))
    return 0


@click.command(name="count-gpus", hidden=True)
@click.argument("node")
def count_gpus(node: str) -> int:
    """Say how many GPUs the node has in Slurm's configuration: what the agent asks once."""
    from stepguard import config
    from stepguard.errors import StepguardError
    from stepguard.report.screen import write_json
    from stepguard.slurm import connect
    from stepguard.slurm.gres import gpus

    try:
        answer: dict[str, Any] = {"gpus": gpus(connect(config.load().slurm).nodes([node])[0].gres), "error": ""}
    except StepguardError as error:
        answer = {"gpus": None, "error": str(error)}
    write_json(answer)
    return 0


def _memory(settings: Config) -> str | None:
    """Where root's checks remember counters from one to the next: beside the agent's, whose own stay as they are."""
    import os

    from stepguard.agent.place import directory_problem
    from stepguard.records.spool import SpoolLayout

    layout = SpoolLayout(Path(settings.agent.spool))
    try:
        is_roots_alone = os.geteuid() == 0 and not directory_problem(layout.root, 0o077)
    except OSError:
        return None  # no agent has been here
    return str(layout.checks) if is_roots_alone else None


def _progress(name: str) -> Callable[[str], None]:
    """Says on stderr what a long probe is at."""
    return lambda at: tell(at, name)


def _report_lines(reports: Iterable[Report], visible: Callable[[str], str]) -> Iterator[str]:
    for report in reports:
        yield f"{report.probe}: {report.status.upper()}{f': {visible(report.reason)}' if report.reason else ''}"
        for one in report.findings:
            where = f"{visible(one.device)}: " if one.device else ""
            yield f"  {where}{one.status}: {one.what}: {visible(one.evidence)} ({one.action})"


def _status_lines(answer: Mapping[str, Any], visible: Callable[[str], str]) -> Iterator[str]:
    action = answer["action"]
    yield f"this node: {answer['status'].upper()}{f', {action}' if action != 'none' else ''}"
    for item in answer["items"]:
        times = f"{item['count']} times, " if item["count"] > 1 else ""
        asked = f", {item['action']}" if item["action"] != "none" else ""
        yield f"  {item['status']}{asked}: {visible(item['text'])} ({times}{ago(item['last_age_s'])})"
    for name, probe in answer["probes"].items():
        when = "" if probe["age_s"] is None else f", {ago(probe['age_s'])}"
        yield f"{name}: {probe['status']}{when}: {visible(probe['reason'])}"
    log = answer["kernel_log"]
    if log["path"]:
        lost = f", {log['lost']} lines lost" if log["lost"] else ""
        how = "" if log.get("is_trusted", True) else ", not trusted"
        instead = f" ({visible(log['instead'])})" if log.get("instead") else ""
        yield f"kernel log: {visible(log['path'])}: {visible(log['why']) or f'read{how}'}{lost}{instead}"
    if (events := answer["gpu_events"]) is not None:
        heard = f"of {events['watching']} GPUs" if events["watching"] else visible(events["why"]) or "not yet"
        yield f"NVML events: {heard}"
    yield from _reaction_lines(answer["reaction"], visible)


def _reaction_lines(reaction: Mapping[str, Any], visible: Callable[[str], str]) -> Iterator[str]:
    """What was done last may be of another time than the verdict: slurmctld is asked seldom, and may be slow."""
    last, asking_s = reaction["last"], reaction.get("asking_s")
    when = f" ({ago(max(0.0, time.time() - last['at_s']))})" if last else ""
    done = f"; {last['done']}: {visible(last['text'])}{when}" if last else ""
    if last and last["done"] == "failed":
        done += "; it is tried again"
    if asking_s is not None:
        done = f"; slurmctld was asked {ago(asking_s)} and has not answered yet"
    yield f"reaction: {reaction['configured']}{done}"


def ago(age_s: float) -> str:
    """3 d ago."""
    for unit_s, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MIN_S, "min")):
        if age_s >= 2 * unit_s:
            return f"{age_s / unit_s:.0f} {unit} ago"
    return f"{age_s:.0f} s ago"
