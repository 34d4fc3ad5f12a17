# SPDX-License-Identifier: Apache-2.0
"""What is done to a node in Slurm for a verdict, and what is left alone."""

from __future__ import annotations

import time

import pytest

from stepguard.health.breaker import CLAIM
from stepguard.health.marking import MAX_TEXT, Leave, Lift, Mark, Reaction, decide, remembered
from stepguard.health.model import Action, Status
from stepguard.health.verdict import Item, NodeVerdict, verdict_of
from stepguard.slurm.reasons import REBOOT, REPLACE, RESUMING, gate_comment, gate_shut_s, near_miss
from stepguard.slurm.records import Node
from unit.health.building import node


def item(
    action: Action = Action.REPLACE, status: Status = Status.FAIL, count: int = 1, text: str = "fallen off the bus"
) -> Item:
    return Item("xid", 79, "0000:0f:00", "0000:0f:00", status, action, text, 0, 0, count)


def verdict(*items: Item) -> NodeVerdict:
    return verdict_of(list(items), True)


WELL = verdict()
BAD = verdict(item())
EVIDENCE = "stepguard: xid 79 on 0000:0f:00: fallen off the bus"
DRAINED = "stepguard: replace: xid 79 on 0000:0f:00: fallen off the bus"


@pytest.mark.parametrize(
    ("action", "reaction", "mark"),
    [
        (Action.REPLACE, "fail", Mark("FAIL", REPLACE, EVIDENCE)),
        (Action.REBOOT, "fail", Mark("FAIL", REBOOT, EVIDENCE)),
        (Action.RESET_GPU, "fail", Mark("FAIL", REBOOT, EVIDENCE)),
        (Action.CHECK, "fail", None),
        (Action.RESTART_APPLICATION, "fail", None),
        (Action.NONE, "fail", None),
        (Action.REPLACE, "drain", Mark("DRAIN", DRAINED)),
        (Action.RESET_GPU, "drain", Mark("DRAIN", DRAINED.replace("replace:", "reset-gpu:"))),
        (Action.CHECK, "drain", None),
        (Action.REPLACE, "none", None),
    ],
)
def test_each_action_has_its_mark(action: Action, reaction: Reaction, mark: Mark | None) -> None:
    done = decide(verdict(item(action)), node(), reaction, {})
    assert done == mark if mark else isinstance(done, Leave)


@pytest.mark.parametrize("status", [Status.OK, Status.WARN, Status.UNKNOWN])
def test_nothing_is_done_for_less_than_a_failure(status: Status) -> None:
    assert isinstance(decide(verdict(item(status=status)), node(), "fail", {}), Leave)
    assert isinstance(decide(verdict_of([], False), node(), "fail", {}), Leave)


@pytest.mark.parametrize(
    "found",
    [
        node(reason="NHC: disk", states="IDLE+DRAIN"),
        node(reason="Not responding", states="DOWN", user="slurm"),
        node(reason="action:replace", states="IDLE+DRAIN"),
        node(reason="Action:Replace : Kill task failed", states="IDLE+FAIL"),
        node(states="DOWN"),
        node(states="IDLE+DRAIN"),
        node(states="ALLOCATED+FAIL"),
        node(reason=REPLACE, states="IDLE+FAIL"),
        node(reason="Action:Reboot : Not responding", states="IDLE+FAIL"),
        node(reason=DRAINED, states="IDLE+DRAIN"),
    ],
)
@pytest.mark.parametrize("reaction", ["drain", "fail"])
def test_no_reason_is_ever_overwritten(found: Node, reaction: Reaction) -> None:
    assert isinstance(decide(BAD, found, reaction, {}), Leave)


@pytest.mark.parametrize(
    ("found", "lifted"),
    [
        (node(reason=DRAINED, states="IDLE+DRAIN"), True),
        (node(reason=f"{DRAINED} : Not responding", states="IDLE+DRAIN"), True),
        (node(reason=f"{DRAINED} : Not responding", states="DOWN+DRAIN"), False),
        (node(reason=f"{DRAINED} : Kill task failed", states="IDLE+DRAIN"), False),
        (node(reason=REPLACE, states="IDLE+FAIL"), False),
        (node(reason=REBOOT, states="IDLE+FAIL"), False),
        (node(reason=REPLACE, states="IDLE+DRAIN"), False),
        (node(reason="maintenance", states="IDLE+DRAIN"), False),
        (node(), False),
    ],
)
@pytest.mark.parametrize("reaction", ["none", "drain", "fail"])
def test_only_our_own_drains_are_lifted(found: Node, lifted: bool, reaction: Reaction) -> None:
    assert isinstance(decide(WELL, found, reaction, {}), Lift if lifted else Leave)


@pytest.mark.parametrize(
    "left",
    [
        verdict_of([], False),
        verdict(item(status=Status.UNKNOWN)),
        verdict(item(status=Status.WARN), item(status=Status.UNKNOWN)),
        verdict(item(Action.CHECK)),
        BAD,
    ],
)
def test_a_drain_is_lifted_only_when_all_is_known_to_be_well(left: NodeVerdict) -> None:
    assert isinstance(decide(left, node(reason=DRAINED, states="IDLE+DRAIN"), "drain", {}), Leave)
    warned = verdict(item(status=Status.WARN))
    assert isinstance(decide(warned, node(reason=DRAINED, states="IDLE+DRAIN"), "drain", {}), Lift)


def test_a_claim_that_was_left_behind_is_taken_up_or_taken_back() -> None:
    found = node(reason=CLAIM, states="IDLE+DRAIN")
    assert decide(BAD, found, "fail", {}) == Mark("FAIL", REPLACE, EVIDENCE)
    assert decide(BAD, found, "none", {}) == Lift()
    assert decide(verdict_of([], False), found, "fail", {}) == Lift()


def test_a_node_is_marked_once_for_each_thing() -> None:
    memory = remembered({}, BAD, True)
    assert isinstance(decide(BAD, node(), "fail", memory), Leave)
    assert isinstance(decide(verdict(item(count=2)), node(), "fail", memory), Mark)
    other = Item("nvml", "row-remap-failure", "GPU-2", "", Status.FAIL, Action.REPLACE, "", 0, 0, 1)
    assert isinstance(decide(verdict(item(), other), node(), "fail", memory), Mark)
    assert remembered(memory, verdict(item(count=2)), False) == memory
    gone = remembered(memory, WELL, False)
    assert isinstance(decide(BAD, node(), "fail", gone), Mark)


def test_evidence_goes_into_a_comment_that_is_nobodys() -> None:
    ours = node(comment="stepguard: xid 48 on 0000:10:00")
    assert decide(BAD, ours, "fail", {}) == Mark("FAIL", REPLACE, EVIDENCE)
    theirs = node(comment="row 7, being rewired")
    assert decide(BAD, theirs, "fail", {}) == Mark("FAIL", REPLACE, None)
    drained = node(reason=DRAINED, states="IDLE+DRAIN", comment="row 7, being rewired")
    assert decide(WELL, drained, "drain", {}) == Lift(None)
    assert decide(WELL, drained._replace(comment=EVIDENCE), "drain", {}) == Lift("")


def test_a_node_that_only_refuses_jobs_says_so_in_its_comment() -> None:
    done = decide(BAD, node(), "gate", {})
    assert isinstance(done, Mark)
    assert (done.state, done.reason) == ("RESUME", None), "its claim was a drain"
    assert done.comment is not None
    assert done.comment.endswith(": xid 79 on 0000:0f:00: fallen off the bus")
    shut_s = gate_shut_s(done.comment)
    assert shut_s is not None
    assert abs(shut_s - time.time()) < 60
    assert isinstance(decide(verdict(item(Action.CHECK)), node(), "gate", {}), Leave)


def test_what_an_administrator_resumes_is_left_alone_and_marked_no_more() -> None:
    for reason in (RESUMING, f"{RESUMING} : Not responding"):
        for known in (BAD, WELL):
            assert decide(known, node(reason=reason, states="IDLE+DRAIN"), "gate", {}) == Leave(
                "an administrator resumes it"
            )
    drained = node(reason="Prolog error", states="IDLE+DRAIN")
    left = decide(BAD, drained, "gate", remembered({}, BAD, True))
    assert isinstance(left, Leave)
    assert left.why == "it was marked for this before, and resumed since", "whatever state it is in for the moment"


@pytest.mark.parametrize("reason", ["", "Prolog error"])
def test_a_gate_that_is_shut_opens_when_the_node_is_well(reason: str) -> None:
    shut = node(reason=reason, states="IDLE+DRAIN" if reason else "IDLE", comment=gate_comment(1000, "xid 79"))
    left = decide(BAD, shut, "gate", {})
    assert isinstance(left, Leave)
    assert left.is_marked
    assert decide(WELL, shut, "gate", {}) == Lift("")


@pytest.mark.parametrize(
    ("found", "is_marked"),
    [
        (node(comment="row 7, being rewired"), False),
        (node(reason="NHC: disk", states="IDLE+DRAIN"), False),
        (node(reason=REPLACE, states="IDLE+FAIL"), True),
        (node(reason=DRAINED, states="IDLE+DRAIN"), True),
    ],
)
@pytest.mark.parametrize("reaction", ["gate", "fail"])
def test_what_is_left_tells_whether_it_is_marked(found: Node, is_marked: bool, reaction: Reaction) -> None:
    left = decide(BAD, found, reaction, {})
    if reaction == "fail" and found.comment:
        assert isinstance(left, Mark)
    else:
        assert isinstance(left, Leave)
        assert left.is_marked is is_marked


def test_a_claim_for_the_gate_that_was_left_behind() -> None:
    claimed = node(reason=CLAIM, states="IDLE+DRAIN")
    assert isinstance(decide(BAD, claimed, "gate", {}), Mark)
    assert decide(WELL, claimed, "gate", {}) == Lift()
    assert isinstance(decide(BAD, claimed._replace(comment="row 7"), "gate", {}), Lift)


def test_what_a_log_said_is_one_plain_line() -> None:
    nasty = verdict(item(text='a : b\n\x1b[31m"quoted" State=IDLE \u2028 é' + "x" * 5000))
    done = decide(nasty, node(), "drain", {})
    assert isinstance(done, Mark)
    assert done.reason is not None
    assert done.reason.isascii()
    assert done.reason.isprintable()
    assert " : " not in done.reason
    assert '"' not in done.reason
    assert len(done.reason) <= MAX_TEXT + len("stepguard: replace: ")
    assert near_miss(done.reason) == ""
