# SPDX-License-Identifier: Apache-2.0
"""`stepguard archiver`: what `stepguard agent` starts to bring records from its spool into the archive."""

from __future__ import annotations

import os
from pathlib import Path

import click

from stepguard import config
from stepguard.archive import fingerprint_key
from stepguard.archive.archiver import Archiver, hold, say
from stepguard.archive.ownership import ownership
from stepguard.archive.redaction import Redactor, load_rules
from stepguard.records.spool import SpoolLayout


@click.command(hidden=True)
def command() -> int:
    """Bring records from this node's spool into the archive, until the agent ends."""
    settings = config.load()
    os.umask(0o077)
    layout = SpoolLayout(Path(settings.agent.spool))
    key = fingerprint_key.load(settings.archive.fingerprint_key, layout.fingerprint_key)
    site_rules = Path(settings.archive.redaction_rules) if settings.archive.redaction_rules else None
    redactor = Redactor(key, load_rules(site_rules, settings.archive.redaction_off))
    owned = ownership(settings.archive.admin_groups)
    held = hold(layout)
    try:
        Archiver(layout, Path(settings.archive.dir), redactor, owned, say).run()
    finally:
        os.close(held)
    return 0
