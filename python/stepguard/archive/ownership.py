# SPDX-License-Identifier: Apache-2.0
"""Whom the archive's files and directories belong to, and with which modes: the kernel decides who reads what.

A file belongs to the owner of its job and nobody else may read it; directories are root's and can be entered by all,
but listed by root alone. An administrators' group (`[archive] admin_groups`) may read every file and list every
directory besides. A file has one group, so one group can be named.
"""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from stepguard.errors import ConfigError


class Ownership(NamedTuple):
    """`group_id` is the group of all that is written, -1 leaves it as it comes."""

    group_id: int = -1
    directory_mode: int = 0o711
    file_mode: int = 0o400


OWNER_ONLY = Ownership()


def ownership(admin_groups: Sequence[str]) -> Ownership:
    """What `[archive] admin_groups` asks for. Raises ConfigError for an unknown group, and for more than one."""
    if not admin_groups:
        return OWNER_ONLY
    if len(admin_groups) > 1:
        where = "[archive] admin_groups: " + ", ".join(admin_groups)
        raise ConfigError("more than one group", where, "a file has one group: name one that holds all administrators")
    try:
        group_id = grp.getgrnam(admin_groups[0]).gr_gid
    except KeyError:
        where = f"[archive] admin_groups: {admin_groups[0]}"
        raise ConfigError("no such group", where, "create it on all nodes, with one number") from None
    return Ownership(group_id, 0o751, 0o440)


def put_right(descriptor: int, group_id: int, mode: int) -> bool:
    """Gives what is open there this group (-1: whichever it has) and mode, for `admin_groups` may have changed since it
    was made; whether it had others. Raises OSError.

    The owner stays. Of a file of a user's the kernel takes set-user-ID and the like away with either change.
    """
    status = os.fstat(descriptor)
    is_right = group_id in (-1, status.st_gid)
    if not is_right:
        os.fchown(descriptor, -1, group_id)
    if is_right and stat.S_IMODE(status.st_mode) == mode:
        return False
    os.fchmod(descriptor, mode)
    return True
