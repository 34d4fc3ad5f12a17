# SPDX-License-Identifier: Apache-2.0
"""The reasons of nodes that mean something to stepguard, and those that almost do. Pure.

"Action:Replace" and "Action:Reboot" are HyperPod's words, which its agent compares as a whole
(docs.aws.amazon.com/sagemaker, "Manually replace or reboot a node"); healers of other sites do as it does.
"""

from __future__ import annotations

import re
import unicodedata

REPLACE, REBOOT = "Action:Replace", "Action:Reboot"
# All other reasons of stepguard's begin so.
PREFIX = "stepguard: "
# Of a node whose agent is to hear first that jobs may start there again.
RESUMING = f"{PREFIX}an administrator resumes this node"
# The comment of a node that refuses jobs, and since when, in seconds since 1970.
_GATE = re.compile(rf"{PREFIX}gate shut at ([0-9]{{1,12}}): ", re.ASCII)
# What slurmctld says of a node that fell silent, alone or behind " : " after the reason that stood there.
_SLURMS_OWN = ("Not responding", "Node unexpectedly rebooted")
# What it says of a node on which the prolog of a job has failed (22.05 to 26.05).
_PROLOGS = "Prolog error"
_ACTIONS = {"actionreplace": REPLACE, "actionreboot": REBOOT}
# A reason may be any length; what is almost an action is short.
_LOOKED_AT = 200
_MAX_TYPOS = 2


def is_ours(reason: str) -> bool:
    """Whether stepguard wrote it: one of the actions, or our prefix. Still so where slurmctld has added that the node
    fell silent (24.11 on does, and takes time and user for its own), and no longer where it has added anything else."""
    reason = without_slurms_words(reason)
    return began_as_ours(reason) and " : " not in reason


def began_as_ours(reason: str) -> bool:
    """Whether stepguard wrote it, whatever was added since."""
    return reason.partition(" : ")[0] in (REPLACE, REBOOT) or reason.startswith(PREFIX)


def is_slurms(reason: str) -> bool:
    """Whether slurmctld alone wrote it, about a node that fell silent: a fact, and nobody's decision."""
    return reason in _SLURMS_OWN


def is_prologs(reason: str) -> bool:
    """Whether slurmctld alone wrote it, about a node on which a job's prolog has failed."""
    first, *more = reason.split(" : ")
    return first == _PROLOGS and all(words in (_PROLOGS, *_SLURMS_OWN) for words in more)


def without_slurms_words(reason: str) -> str:
    """The reason as it was set: "Action:Replace : Not responding" → "Action:Replace"."""
    for words in _SLURMS_OWN:
        reason = reason.removesuffix(f" : {words}")
    return reason


def gate_comment(at_s: float, why: str) -> str:
    """What the comment of a node says that refuses jobs."""
    return f"{PREFIX}gate shut at {int(at_s)}: {why}"


def gate_shut_s(comment: str) -> float | None:
    """Since when a node refuses jobs, by its comment; None where it does not."""
    match = _GATE.match(comment)
    return float(match[1]) if match else None


def near_miss(reason: str) -> str:
    """Why a reason that seems to ask for an action is none; "" where it is one, or is about something else."""
    if reason in (REPLACE, REBOOT):
        return ""
    set_by_hand = without_slurms_words(reason)
    if set_by_hand in (REPLACE, REBOOT):
        return f"{set_by_hand}, to which Slurm has added {reason[len(set_by_hand) :]!r}"
    folded = unicodedata.normalize("NFKC", reason[:_LOOKED_AT]).casefold()
    letters = "".join(char for char in folded if char.isalpha())
    for plain, action in _ACTIONS.items():
        if letters == plain:
            return f"almost {action}: {_difference(reason, action)}"
        if plain in letters:
            return f"{action} with more words around it"
        if letters and _typos(letters, plain) <= _MAX_TYPOS:
            return f"almost {action}: misspelt"
    if re.match(r"\W*action\s*[:=]", folded):
        return f"no action that there is; there are {REPLACE} and {REBOOT}"
    return ""


def _difference(reason: str, action: str) -> str:
    """How two texts of the same letters differ."""
    if reason.casefold() == action.casefold():
        return "other case of letters"
    squeezed = "".join(reason.split())
    if squeezed.casefold() == action.casefold():
        return "blanks in it"
    if squeezed.strip("\"'").casefold() == action.casefold():
        return "quotes around it"
    if squeezed.rstrip(".,;:!").casefold() == action.casefold():
        return f"{squeezed[-1]!r} at its end"
    return f"other signs than the one colon in {action}"


def _typos(text: str, wanted: str) -> int:
    """How many letters to add, drop or change (Levenshtein); no more than that it is too many for longer texts."""
    if abs(len(text) - len(wanted)) > _MAX_TYPOS:
        return _MAX_TYPOS + 1
    row = list(range(len(wanted) + 1))
    for line, char in enumerate(text, 1):
        above, row = row, [line]
        for column, other in enumerate(wanted, 1):
            row.append(min(above[column] + 1, row[-1] + 1, above[column - 1] + (char != other)))
    return row[-1]
