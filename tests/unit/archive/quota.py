# SPDX-License-Identifier: Apache-2.0
"""A user's quota on the archive's file system that is used up."""

from __future__ import annotations

import errno
import os

import pytest


def use_up_the_quota(uid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system where root keeps quotas: the unit leaves the archiver no CAP_SYS_RESOURCE."""
    chown = os.fchown

    def within_quota(descriptor: int, owner: int, group: int) -> None:
        if owner == uid:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        chown(descriptor, owner, group)

    monkeypatch.setattr(os, "fchown", within_quota)
