# SPDX-License-Identifier: Apache-2.0
"""What a node itself knows of its faults: the fault file ([resume] fault_file)."""

from __future__ import annotations

from pathlib import Path

from stepguard import named_file

SOURCE = "fault-file"
# What a line may ask for, the most first.
_ACTIONS = ("replace", "reboot", "check")
_MAX_SIZE_BYTES = 4096
_TEXT_MAX_CHARACTERS = 300
# A file that is none has more than anybody wants to read.
_FAULTS_MAX = 8

# (who says so, what the node needs, why)
Fault = tuple[str, str, str]


def local_faults(path: Path) -> list[Fault]:
    """The faults of this node now, the gravest first, each once.

    Each line is `replace: why`, `reboot: why` or `check: why`; blank lines and those that begin with # say nothing, as
    does an empty file: a checker may empty it before it writes, or print nothing where all is well. All else is told
    as a fault that needs a check, as is a file that cannot be read, since somebody meant to say something; it must not
    end programs.
    """
    try:
        with named_file.opened(path) as file:
            text = named_file.beginning(file, _MAX_SIZE_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        return [(SOURCE, "check", f"{path}: {error.strerror}")]
    lines = (line.strip() for line in text.split("\n"))
    faults = dict.fromkeys(_fault(line, path) for line in lines if line and not line.startswith("#"))
    return sorted(faults, key=lambda fault: _ACTIONS.index(fault[1]))[:_FAULTS_MAX]


def _fault(line: str, path: Path) -> Fault:
    action, colon, why = line.partition(":")
    action = action.strip().lower()
    if not colon or action not in _ACTIONS:
        return SOURCE, "check", _shown(f"{path} is not understood: {line}")
    return SOURCE, action, _shown(why) or str(path)


def _shown(text: str) -> str:
    """Other people's words, for terminals and logs."""
    return "".join(one if one.isprintable() else " " for one in text[:_TEXT_MAX_CHARACTERS]).strip()
