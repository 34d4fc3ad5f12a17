# SPDX-License-Identifier: Apache-2.0
"""The one error of the lab."""

from __future__ import annotations


class LabError(Exception):
    """The lab could not do what it was asked to: what failed, on what, and what was printed."""
