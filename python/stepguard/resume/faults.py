# SPDX-License-Identifier: Apache-2.0
"""What a node itself knows of its faults: the fault file, and the local agent's verdict."""

from __future__ import annotations

from pathlib import Path

_ACTIONS = ("replace", "reboot", "check")
_MAX_SIZE_BYTES = 4096

# (who says so, what the node needs, why)
Fault = tuple[str, str, str]


def local_faults(fault_file: Path) -> list[Fault]:
    """The faults of this node now, worst source first. A fault file that cannot be read is itself told as one
    that needs a check, since somebody meant to say something."""
    return [*_from_file(fault_file), *agent_verdict()]


def agent_verdict() -> list[Fault]:
    """The local agent's verdict on this node's hardware. There is no agent yet: nothing is known."""
    return []


def _from_file(path: Path) -> list[Fault]:
    """One line, `replace: why` or `reboot: why`; an empty file asks for a replacement."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_SIZE_BYTES).decode(errors="replace").strip()
    except FileNotFoundError:
        return []
    except OSError as error:
        return [("fault-file", "check", f"{path}: {error.strerror}")]
    first = text.splitlines()[0] if text else ""
    action, colon, why = first.partition(":")
    if colon and action.strip().lower() in _ACTIONS:
        return [("fault-file", action.strip().lower(), why.strip() or str(path))]
    return [("fault-file", "replace", first or str(path))]
