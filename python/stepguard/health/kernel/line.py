# SPDX-License-Identifier: Apache-2.0
"""One line of a log."""

from __future__ import annotations

from typing import NamedTuple


class LogLine(NamedTuple):
    """`number`     of the line in what was read, from 1; 0 of a live source
    `at_s`       seconds since 1970; None where the line does not tell them, or tells no year or no time zone
    `tag`        "kernel", a program's name, or "" where there is none
    `text`       what is left without time, host and tag
    `is_kernel`  the kernel wrote it
    `clock_s`    seconds by a clock of the log's own (since boot, or of the month), which tell how far lines are apart;
                 None where the line tells none
    """

    number: int
    at_s: float | None
    host: str
    tag: str
    text: str
    is_kernel: bool
    clock_s: float | None = None
