# SPDX-License-Identifier: Apache-2.0
"""What nodes tell while a step runs is told on, each thing once, if it is news."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stepguard.resume.hearsay import Hearsay
from stepguard.resume.journal import Journal
from stepguard.resume.messages import Messages
from stepguard.resume.told import Told


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "resumes.jsonl", "key", 0)


@pytest.fixture
def hearsay(journal: Journal) -> Hearsay:
    return Hearsay(journal, Messages("71"), time.monotonic())


def xid(code: str = "13", *, age_s: float = -1.0, **changes: object) -> Told:
    at_s = time.monotonic() - age_s
    text = f"xid {code} on 0000:0f:00"
    told = Told(
        "agent", "restart-application", text, "xid", code, "0000:0f:00", True, "application", "warn", at_s, at_s
    )
    return told._replace(**changes)  # type: ignore[arg-type]


def test_news_is_told_once(hearsay: Hearsay, journal: Journal, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        hearsay.hear("n2", xid())
    hearsay.hear("n3", xid())
    first, second = journal.records()
    assert (first["event"], first["node"], second["node"]) == ("health", "n2", "n3")
    assert (first["origin"], first["code"], first["device"]) == ("xid", "13", "0000:0f:00")
    assert (first["class"], first["action"], first["status"]) == ("application", "restart-application", "warn")
    line = "[Auto Resume] Info: JobID: 71 n2: xid 13 on 0000:0f:00 (agent: application, restart-application)\n"
    assert capfd.readouterr().err.count(line) == 1


def test_what_was_before_and_what_cannot_be_told_is_no_news(
    hearsay: Hearsay, journal: Journal, capfd: pytest.CaptureFixture[str]
) -> None:
    hearsay.hear("n2", xid(age_s=3600))
    hearsay.hear("n2", xid(status="unknown"))
    # A probe goes on finding it: it is there since an hour.
    hearsay.hear("n2", xid(fault_class="", first_s=time.monotonic() - 3600))
    assert journal.records() == []
    assert capfd.readouterr().err == ""


def test_nobody_is_drowned(hearsay: Hearsay, journal: Journal) -> None:
    for code in range(200):
        hearsay.hear("n2", xid(str(code)))
    assert len(journal.records()) == 50


def test_hardware_that_was_broken_before_is_told_once_a_node(
    hearsay: Hearsay, journal: Journal, capfd: pytest.CaptureFixture[str]
) -> None:
    for code in ("48", "95", "48"):
        hearsay.hear("n1", xid(code, age_s=3600, fault_class="hardware-reset", action="reset-gpu", status="fail"))
    line = "[Auto Resume] Info: JobID: 71 n1 has a known fault: xid 48 on 0000:0f:00 (agent: reset-gpu)\n"
    assert capfd.readouterr().err == line
    assert journal.records() == []
