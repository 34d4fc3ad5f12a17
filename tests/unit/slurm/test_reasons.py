# SPDX-License-Identifier: Apache-2.0
"""Which reasons of nodes are stepguard's, and which only look like an action."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepguard.slurm.reasons import PREFIX, REBOOT, REPLACE, began_as_ours, is_ours, is_slurms, near_miss


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("action:replace", "almost Action:Replace: other case of letters"),
        ("ACTION:REBOOT", "almost Action:Reboot: other case of letters"),
        ("Action: Replace", "almost Action:Replace: blanks in it"),
        ("Action :Reboot", "almost Action:Reboot: blanks in it"),
        ("Action:Replace ", "almost Action:Replace: blanks in it"),
        ("Action:\u00a0Replace", "almost Action:Replace: blanks in it"),
        ("Action:Replace.", "almost Action:Replace: '.' at its end"),
        ("action: reboot!", "almost Action:Reboot: '!' at its end"),
        ('"Action:Replace"', "almost Action:Replace: quotes around it"),
        ("'Action:Reboot'", "almost Action:Reboot: quotes around it"),
        ("Action=Replace", "almost Action:Replace: other signs than the one colon in Action:Replace"),
        ("ActionReplace", "almost Action:Replace: other signs"),
        ("Action::Replace", "almost Action:Replace: other signs"),
        ("Action\uff1aReplace", "almost Action:Replace: other signs"),
        ("Action:\u200bReplace", "almost Action:Replace: other signs"),
        ("Acton:Replace", "almost Action:Replace: misspelt"),
        ("Action:Repalce", "almost Action:Replace: misspelt"),
        ("Action:Rebot", "almost Action:Reboot: misspelt"),
        ("Action:Replaced", "Action:Replace with more words around it"),
        ("Action:Reboot XID 79", "Action:Reboot with more words around it"),
        ("GPU 3 gone, Action:Replace", "Action:Replace with more words around it"),
        ("Action:Replace : Not responding", "Action:Replace, to which Slurm has added ' : Not responding'"),
        (
            "Action:Reboot : Node unexpectedly rebooted : Not responding",
            "Action:Reboot, to which Slurm has added ' : Node unexpectedly rebooted : Not responding'",
        ),
        ("Action:Reset", "no action that there is; there are Action:Replace and Action:Reboot"),
        ("action = drain", "no action that there is"),
    ],
)
def test_what_almost_says_an_action_is_explained(reason: str, said: str) -> None:
    assert near_miss(reason).startswith(said)


@pytest.mark.parametrize(
    "reason",
    [
        REPLACE,
        REBOOT,
        "",
        "Not responding",
        "Kill task failed",
        "reaction to load",
        "action",
        "needs replacement of the PSU",
        "NHC: check_fs_free: /tmp",
        "stepguard: replace: xid 79 on 0000:0f:00",
        "x" * 100_000,
    ],
)
def test_what_is_an_action_or_something_else_is_left_alone(reason: str) -> None:
    assert near_miss(reason) == ""


@given(st.text())
def test_any_text_has_an_answer(reason: str) -> None:
    said = near_miss(reason)
    assert (said == "") or "Action:" in said


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        (REPLACE, True),
        (REBOOT, True),
        ("Action:Replace : Not responding", True),
        (f"{PREFIX}replace: xid 79", True),
        (f"{PREFIX}replace: xid 79 : Not responding", True),
        ("Action:Replace now", False),
        ("action:replace", False),
        ("Action:Replace : Kill task failed", False),
        (f"{PREFIX}replace: xid 79 : Kill task failed", False),
        ("stepguard", False),
        ("NHC: stepguard: no", False),
        ("Not responding", False),
        ("", False),
    ],
)
def test_only_what_stepguard_writes_is_ours(reason: str, ours: bool) -> None:
    assert is_ours(reason) is ours


@pytest.mark.parametrize("reason", [REPLACE, f"{PREFIX}replace: xid 79"])
def test_what_began_as_ours_is_known_whatever_was_added(reason: str) -> None:
    assert began_as_ours(f"{reason} : Kill task failed")
    assert not began_as_ours(f"NHC: {reason}")


def test_slurms_own_words_are_nobodys_decision() -> None:
    assert is_slurms("Not responding")
    assert not is_slurms("Action:Replace : Not responding")
    assert not is_slurms("Kill task failed")
