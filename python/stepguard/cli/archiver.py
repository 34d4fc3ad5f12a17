# SPDX-License-Identifier: Apache-2.0
"""`stepguard archiver`: what `stepguard agent` starts to bring records from its spool into the archive."""

from __future__ import annotations

import os
from pathlib import Path

import click

from stepguard import config
from stepguard.archive import fingerprint_key
from stepguard.archive.archiver import Archiver, hold, say
from stepguard.archive.preparation import prepare
from stepguard.archive.redaction import Redactor
from stepguard.archive.word import Word
from stepguard.config import Config
from stepguard.errors import ConfigError, reason
from stepguard.records.spool import SpoolLayout


@click.command(hidden=True)
@click.argument("agent", metavar="PID", type=int)
def command(agent: int) -> int:
    """Bring records from this node's spool into the archive, until the agent, the process that started this, ends."""
    settings = config.load()
    os.umask(0o077)
    layout = SpoolLayout(Path(settings.agent.spool))
    try:
        return _run(settings, layout, agent)
    except Exception as error:
        _stopped(layout, f"{type(error).__name__}: {error}")
        raise


def _run(settings: Config, layout: SpoolLayout, agent: int) -> int:
    prepared, faults = prepare(settings.archive)
    if prepared is None:
        for fault in faults:
            say(f"nothing is archived: {fault}")
        _stopped(layout, "; ".join(map(str, faults)))
        return ConfigError.exit_status
    key = prepared.site_key or fingerprint_key.own(layout.fingerprint_key, _key_untold)
    held = hold(layout)
    try:
        Archiver(layout, Path(settings.archive.dir), Redactor(key, prepared.rules), prepared.ownership, say).run(agent)
    finally:
        os.close(held)
    return 0


def _stopped(layout: SpoolLayout, why: str) -> None:
    """An earlier archiver may have said that all is well."""
    Word(layout.archiver_word, lambda error: say(f"cannot say so in the spool: {reason(error)}")).stopped(why)


def _key_untold(error: OSError) -> None:
    say(f"this node's key cannot be kept: {reason(error)}; until the next start marks have a key of their own")
