# SPDX-License-Identifier: Apache-2.0
"""Small C programs of the tests, under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from shim.built import HERE, REPOSITORY, SANITIZE

WIRE = ("wire", "deliver", "notes", "agent_settings")
"""What of spank/ speaks to the agent."""


def compiled(directory: Path, name: str, parts: Sequence[str] = WIRE) -> Path:
    """tests/shim/NAME.c with these parts of spank/."""
    program = directory / name
    sources = [str(HERE / f"{name}.c"), *(str(REPOSITORY / f"spank/{part}.c") for part in parts)]
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", f"-I{REPOSITORY / 'spank'}"]
    subprocess.run(["cc", *flags, *SANITIZE.split(), "-o", str(program), *sources], check=True)
    return program
