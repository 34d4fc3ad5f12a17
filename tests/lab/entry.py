# SPDX-License-Identifier: Apache-2.0
"""The way into a lab from another process: which labs live, and a program on one of their hosts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lab.accounts import Accounts
from lab.directory import living
from lab.errors import LabError
from lab.hosts import HOSTS_NOTE
from lab.namespaces import Namespaces
from lab.processes import call


def execute(argv: Sequence[str], host: str, user: str, lab: Path | None = None) -> int:
    """Runs a program on a host of a living lab, on our terminal, and returns its status.

    `lab` is the lab's directory; it need not be said while only one lives. Raises LabError when there is no such host.
    """
    lab = lab or _only(living())
    try:
        holders = dict(line.split() for line in (lab / HOSTS_NOTE).read_text().splitlines())
        namespaces = Namespaces(int(holders[host]))
    except FileNotFoundError:
        raise LabError(f"no lab in {lab}") from None
    except KeyError:
        raise LabError(f"no host {host} is on in {lab}, only {', '.join(holders)}") from None
    account = Accounts(lab, (), lab / "home")[user]
    env = {**account.environment(), "TERM": os.environ.get("TERM", "dumb")}
    return call(argv, namespaces, uid=account.uid, gid=account.gid, env=env, cwd=account.home)


def _only(labs: Sequence[Path]) -> Path:
    if len(labs) != 1:
        raise LabError(
            f"say which lab, with --lab: {', '.join(map(str, labs)) or f'none lives in {tempfile.gettempdir()}'}"
        )
    return labs[0]
