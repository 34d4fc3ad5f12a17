# SPDX-License-Identifier: Apache-2.0
"""`stepguard health`: what devices and the kernel say, and what is to be done about it.

Exit status of explain, check, status and nodes, as plug-ins of Nagios have it: 0 OK, 1 warning, 2 failed, 3 unknown; of
several, that of the worst. Of catalogue: 0, or 1 for a code that no catalogue has.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from stepguard.cli import health_node, health_nodes
from stepguard.cli.output import tell
from stepguard.errors import reason

if TYPE_CHECKING:
    from stepguard.health.catalogue import Catalogue, Entry
    from stepguard.health.explain import Explained

SCHEMA = 1
_STDIN = "-"
_UNREADABLE = "unreadable"


@click.group(short_help="What devices and the kernel say, and what is to be done.")
def command() -> None:
    """What GPUs, networks, disks and the kernel say, and what is to be done about it."""


@command.command(short_help="What a pasted log or a tool's output says.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option(
    "--exit-code", type=click.IntRange(-255, 255), metavar="N", help="Status that the pasted command ended with."
)
def explain(files: Sequence[str], as_json: bool, exit_code: int | None) -> int:
    """Say what is in FILE, and what it means: lines of a kernel's log in any format, or what a tool for GPUs, networks
    or accelerators printed. "-" is standard input. What it is, it finds out by itself.

    \b
    EXIT STATUS, of the worst file:
      0  nothing is wrong
      1  warning: a program's fault, a network, memory or disk to look at
      2  failed: hardware to reset or replace, or a node to reboot
      3  unknown: it does not tell, or is nothing that is known
    """
    from stepguard.health.explain.document import document
    from stepguard.health.explain.page import lines_of
    from stepguard.health.model import worst
    from stepguard.report.screen import stdout_screen, write_json, write_lines

    rows, site = _catalogue()
    explained = [(name, _explained(name, exit_code, rows)) for name in files]
    screen = stdout_screen()
    if as_json:
        write_json(document(explained, site))
    else:
        for name, one in explained:
            write_lines(lines_of(name, one, rows, screen.text), screen)
        if site:
            write_lines([f"by the site's catalogue, {screen.text(site)}"], screen)
    return worst(one.judgement.status for _, one in explained).exit_status


@command.command(short_help="What an XID, an SXID or a DCGM error means.")
@click.argument("code", metavar="CODE")
@click.option("--source", metavar="NAME", help="xid, sxid or dcgm, or a source of the kernel's other messages.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def catalogue(code: str, source: str | None, as_json: bool) -> int:
    """Say what CODE means, what it asks for, who says so, and who says otherwise. Without --source: an XID, else an
    SXID. "XID 79" and a name do too: DCGM_FR_FALLEN_OFF_BUS. A row of the site's own ([health] catalogue) counts for
    more."""
    from stepguard.errors import UsageError
    from stepguard.escaping import quoted
    from stepguard.health.catalogue.catalogue import sources
    from stepguard.health.explain.page import entry_lines
    from stepguard.report.screen import stdout_screen, write_json, write_lines

    if source is not None and source not in sources():
        raise UsageError(f"unknown source {quoted(source)}", "--source", "known: " + ", ".join(sources()))
    found = _looked_up(*_as_written(code, source))
    if as_json:
        write_json(_record(found))
    else:
        write_lines(entry_lines(found), stdout_screen())
    return int(not found.is_known)


command.add_command(health_node.check)
command.add_command(health_node.status)
command.add_command(health_node.react)
command.add_command(health_node.count_gpus)
command.add_command(health_nodes.nodes)


def _as_written(code: str, source: str | None) -> tuple[str, str | None]:
    """Code and source as logs and people write them: "XID 79", "sxid20034"; blanks around it mean nothing."""
    code = code.strip()
    spoken = re.fullmatch(r"(s?xid)[ :#-]{0,2}(\d+)", code, re.IGNORECASE)
    if spoken and source in (None, spoken[1].lower()):
        return spoken[2], spoken[1].lower()
    return code, source


def _looked_up(code: str, source: str | None) -> Entry:
    """The entry of a code or a name. Raises UsageError for what is neither."""
    from stepguard.errors import ConfigError, UsageError
    from stepguard.escaping import quoted
    from stepguard.health.catalogue.catalogue import parsed_code

    rows, _ = _catalogue()
    for of in [source] if source else ("xid", "sxid", "dcgm"):
        for entry in rows.entries(of):
            if code.upper() in entry.name.upper().split():
                return entry
    try:
        entries = [rows.lookup(of, parsed_code(of, code, "CODE")) for of in ([source] if source else ("xid", "sxid"))]
    except ConfigError as error:  # which is what it is in a site's own catalogue
        advice = error.advice if error.advice.startswith("known: ") else "write a number, or a name that it has"
        raise UsageError(f"no code of the catalogue {quoted(code)}", "CODE", advice) from error
    return next((entry for entry in entries if entry.is_known), entries[0])


def _catalogue() -> tuple[Catalogue, str]:
    """The catalogue by which this node's agent goes, and the file with the site's rows in it; "" for none. What comes
    with stepguard, said so, where they cannot be read: whoever reads a log elsewhere is to have an answer."""
    from stepguard import config
    from stepguard.errors import ConfigError
    from stepguard.health.catalogue import of_site, shipped

    try:
        site = config.load().health.catalogue
        return of_site(site), site
    except ConfigError as error:
        tell(f"{error}; without the site's catalogue")
        return shipped(), ""


def _explained(name: str, exit_code: int | None, rows: Catalogue) -> Explained:
    from stepguard.health.explain import Explained, explain
    from stepguard.health.explain.explained import MAX_BYTES
    from stepguard.health.model import Judgement, Status

    try:
        if name == _STDIN and sys.stdin is None:  # closed by whoever started this
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if name == _STDIN:
            content = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(name, "rb") as file:  # noqa: PTH123 (a name may be anything that open takes)
                content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        tell(f"cannot read {name!r}: {why}")
        return Explained(_UNREADABLE, Judgement(Status.UNKNOWN, "cannot be read"))
    return explain(content, exit_code, rows)


def _record(entry: Entry) -> dict[str, object]:
    from stepguard.health.catalogue.catalogue import sheet

    repeats = entry.repeats
    return {
        "schema": SCHEMA,
        "version": sheet(entry.source).version,
        "source": entry.source,
        "code": entry.code,
        "known": entry.is_known,
        "name": entry.name,
        "meaning": entry.meaning,
        "class": entry.fault_class,
        "action": entry.action,
        "vendor": entry.vendor,
        "repeats": repeats
        and {
            "count": repeats.count,
            "within_s": repeats.within_s,
            "class": repeats.fault_class,
            "action": repeats.action,
        },
        "overridden_by": list(entry.overridden_by),
        "origin": entry.origin,
        "disagreements": list(entry.disagreements),
    }
