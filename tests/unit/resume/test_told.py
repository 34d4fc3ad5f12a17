# SPDX-License-Identifier: Apache-2.0
"""What nodes tell of themselves: whose fault it is, when it was, and nonsense."""

from __future__ import annotations

import json

import pytest

from stepguard.resume.told import Told, from_agent, told_in

XID_79 = {
    "source": "agent",
    "origin": "xid",
    "code": 79,
    "device": "0000:0F:00",
    "gpu": "0000:0f:00",
    "class": "hardware-replace",
    "status": "fail",
    "action": "replace",
    "count": 1,
    "age_s": 3.0,
    "last_age_s": 1.0,
    "text": "xid 79 on 0000:0f:00: GPU has fallen off the bus",
}


def of(**changes: object) -> Told:
    told = from_agent({**XID_79, **changes}, now_s=100.0)
    assert told is not None
    return told


@pytest.mark.parametrize(
    ("changes", "is_hardware", "is_programs"),
    [
        ({}, True, False),
        ({"code": 48, "class": "hardware-reset", "action": "reset-gpu"}, True, False),
        ({"code": 13, "class": "hardware-reset", "action": "reset-gpu"}, True, False),  # five times
        ({"code": 119, "class": "reboot", "action": "reboot"}, True, False),
        ({"code": 13, "class": "application", "action": "restart-application", "status": "warn"}, False, True),
        ({"code": 43, "class": "application", "action": "restart-application", "status": "warn"}, False, True),
        ({"code": 45, "class": "application", "action": "check", "status": "warn"}, False, False),
        ({"class": "hardware-reset", "action": "check"}, False, False),
        ({"class": "network", "action": "check", "status": "warn"}, False, False),
        ({"class": "hardware-replace", "action": "replace", "status": "unknown"}, False, False),
    ],
)
def test_whose_fault_it_is(changes: dict[str, object], is_hardware: bool, is_programs: bool) -> None:
    assert (of(**changes).is_hardware, of(**changes).is_programs) == (is_hardware, is_programs)


def test_its_name() -> None:
    assert of().name == "XID 79 on GPU 0000:0f:00"
    assert of(origin="nvme", code="timeout", gpu="", device="nvme0").name == "nvme timeout on nvme0"
    assert Told("fault-file", "replace", "gone").name == "gone"


def test_it_travels_with_its_age() -> None:
    sent = json.loads(json.dumps({"told": [of().aged(110.0), Told("fault-file", "check", "fans").aged(110.0)]}))
    xid, fans = told_in(sent, now_s=1000.0)
    assert xid == of()._replace(first_s=987.0, last_s=989.0)
    assert fans == Told("fault-file", "check", "fans")


def test_when_it_was() -> None:
    told = of()  # came at 97, and again at 99
    assert told.seen_since(98.0) and told.is_new_since(98.0)
    assert not told.seen_since(99.5)
    finding = of(**{"class": ""})
    assert finding.seen_since(98.0) and not finding.is_new_since(98.0)
    assert Told("fault-file", "check", "fans").is_new_since(1e9)


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "7",
        '"x"',
        "{}",
        "[[]]",
        "[[1,2,3,4,5,6,7,8,9,10,11]]",
        '[["a","b","c"]]',
        '[{"source":"agent"}]',
        "[null]",
    ],
)
def test_nonsense_of_a_watch_is_left_aside(text: str) -> None:
    assert told_in({"told": json.loads(text)}, now_s=0.0) == []


@pytest.mark.parametrize(
    "finding", [None, [], "x", {}, {"action": "replace"}, {"action": 1, "text": "x"}, {"action": "x", "text": None}]
)
def test_nonsense_of_an_agent_is_left_aside(finding: object) -> None:
    assert from_agent(finding, now_s=0.0) is None


def test_what_an_agent_says_is_bounded() -> None:
    told = of(text="x" * 10_000, action="y" * 10_000, code=float("inf"), age_s=float("nan"), last_age_s=True)
    assert (len(told.text), len(told.action), told.code, told.first_s, told.last_s) == (500, 64, "", None, None)
