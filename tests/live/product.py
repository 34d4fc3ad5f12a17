# SPDX-License-Identifier: Apache-2.0
"""The product, installed as an administrator would, for the lab to show at /opt/stepguard."""

from __future__ import annotations

import functools
from pathlib import Path

from lab.roots import product


@functools.cache
def installed() -> Path:
    """Builds and installs what is in the tree now, for the release that the lab runs; stands for /opt/stepguard."""
    return product()
