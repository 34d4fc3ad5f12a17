# SPDX-License-Identifier: Apache-2.0
"""What a diagnostic of DCGM tells, in whichever form it was printed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

# Whose a test is that is of no one device, such as that of the libraries.
NODE = "node"
# Whose a test is that ended alike on all of them, which are not told one by one.
ALL_GPUS = "all GPUs"


class Problem(NamedTuple):
    """A warning or an error; `severity` is DCGM's (dcgmErrorSeverity_t), None where it is not told."""

    text: str
    severity: int | None


@dataclass
class Result:
    """One test on one device; `status` in the tool's own word."""

    device: str
    test: str
    status: str
    problems: list[Problem] = field(default_factory=list)
