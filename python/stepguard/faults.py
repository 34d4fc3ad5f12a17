# SPDX-License-Identifier: Apache-2.0
"""What a node itself knows of its faults: the fault file ([resume] fault_file)."""

from __future__ import annotations

from pathlib import Path

from stepguard import named_file

_ACTIONS = ("replace", "reboot", "check")
_MAX_SIZE_BYTES = 4096

# (who says so, what the node needs, why)
Fault = tuple[str, str, str]


def local_faults(path: Path) -> list[Fault]:
    """The faults of this node now.

    One line, `replace: why` or `reboot: why`; an empty file asks for a replacement. A file that cannot be read is
    itself told as a fault that needs a check, since somebody meant to say something.
    """
    try:
        with named_file.opened(path) as file:
            text = named_file.beginning(file, _MAX_SIZE_BYTES).decode(errors="replace").strip()
    except FileNotFoundError:
        return []
    except OSError as error:
        return [("fault-file", "check", f"{path}: {error.strerror}")]
    first = text.splitlines()[0] if text else ""
    action, colon, why = first.partition(":")
    if colon and action.strip().lower() in _ACTIONS:
        return [("fault-file", action.strip().lower(), why.strip() or str(path))]
    return [("fault-file", "replace", first or str(path))]
