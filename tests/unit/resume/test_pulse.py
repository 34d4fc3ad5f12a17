# SPDX-License-Identifier: Apache-2.0
"""A node is lost when neither its watch nor its kernel speaks for it, and not before."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from stepguard.config import Resume
from stepguard.resume.pulse import Pulse
from stepguard.resume.told import Told

CONFIG = Resume(silence_s=3.0, probe_s=0.0)
# TEST-NET-1 (RFC 5737) leads nowhere; what a probe of it says depends on no host.
NOWHERE = ("192.0.2.1", 9)


@pytest.fixture
def living_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def answer(node: str, seq: int, **more: object) -> dict[str, object]:
    return {"node": node, "seq": seq, "told": [], "processes": None} | more


def test_a_node_that_answers_is_not_lost(living_port: int) -> None:
    pulse = Pulse(CONFIG, {"n1": ("127.0.0.1", living_port)}, now_s=0)
    pulse.heard(answer("n1", 1), now_s=10)
    pulse.look(now_s=12)
    assert pulse.lost() == set()


def test_a_silent_node_whose_kernel_answers_is_not_lost(living_port: int) -> None:
    pulse = Pulse(CONFIG, {"n1": ("127.0.0.1", living_port)}, now_s=0)
    pulse.heard(answer("n1", 1), now_s=0)
    for now_s in range(1, 60):
        pulse.look(now_s=float(now_s))
    assert pulse.lost() == set()
    assert pulse.overdue(now_s=60)


def test_a_silent_node_that_does_not_resolve_is_lost_and_comes_back() -> None:
    pulse = Pulse(CONFIG, {"n1": ("n1.invalid", 6818)}, now_s=0)
    pulse.heard(answer("n1", 1), now_s=0)
    pulse.look(now_s=2.9)
    assert pulse.lost() == set()
    pulse.look(now_s=float("inf"))
    assert pulse.lost() == {"n1"}
    pulse.heard(answer("n1", 2), now_s=5)
    assert pulse.lost() == set()
    assert pulse.flapped() == ("n1",)


def test_our_own_pause_is_nobodys_silence() -> None:
    pulse = Pulse(CONFIG, {"n1": NOWHERE}, now_s=0)
    pulse.heard(answer("n1", 1), now_s=0)
    pulse.excuse(100)
    pulse.look(now_s=102)
    assert pulse.lost() == set()


def test_answers_and_process_counts_are_matched_to_the_ping() -> None:
    pulse = Pulse(CONFIG, {"n1": NOWHERE, "n2": NOWHERE}, now_s=0)
    pulse.heard(answer("n1", 4, processes=2), now_s=1)
    assert pulse.unanswered(4, ["n1", "n2"]) == ["n2"]
    pulse.heard(answer("n2", 5, processes=0), now_s=1)
    assert pulse.unanswered(4, ["n1", "n2", "stranger"]) == []
    assert not pulse.emptied(4, ["n1", "n2"])
    pulse.heard(answer("n1", 6, processes=0), now_s=2)
    assert pulse.emptied(5, ["n1", "n2"])


FALLEN = Told("agent", "replace", "xid 79", "xid", "79", "0000:0f:00", True, "hardware-replace", "fail", 8.0, 8.0)
GONE = Told("fault-file", "replace", "XID 79")


def test_faults_are_kept_by_node_the_gravest_first_and_nonsense_is_left_aside() -> None:
    pulse = Pulse(CONFIG, {"n1": NOWHERE, "n2": NOWHERE}, now_s=0)
    reset = FALLEN._replace(action="reset-gpu")
    check = Told("fault-file", "check", "fans")
    pulse.heard(answer("n1", 1, told=[reset.aged(10), check.aged(10), FALLEN.aged(10), ["short"]]), now_s=10)
    pulse.heard(answer("n2", 1, told=[check.aged(10)]), now_s=10)
    pulse.heard(answer("stranger", 1), now_s=1)
    pulse.heard({"seq": 1}, now_s=1)
    assert pulse.faults() == {"n1": [FALLEN, reset]}
    assert pulse.told()["n2"] == [check]
    assert pulse.standing_faults() == pulse.faults()


def test_what_was_before_the_step_began_is_no_reason_to_end_it() -> None:
    pulse = Pulse(CONFIG, {"n1": NOWHERE, "n2": NOWHERE}, now_s=9, began_s=9)
    pulse.heard(answer("n1", 1, told=[FALLEN.aged(10)]), now_s=10)
    pulse.heard(answer("n2", 1, told=[GONE.aged(10)]), now_s=10)
    assert pulse.faults() == {"n2": [GONE]}  # a file that lies there now
    assert pulse.standing_faults() == {"n1": [FALLEN], "n2": [GONE]}
    pulse.heard(answer("n1", 2, told=[FALLEN._replace(last_s=11).aged(12)]), now_s=12)
    assert pulse.faults().keys() == {"n1", "n2"}


def test_agents_and_offences() -> None:
    pulse = Pulse(CONFIG, {"n1": NOWHERE, "n2": NOWHERE}, now_s=0)
    pulse.heard(answer("n1", 1, agent=True, offences=3), now_s=1)
    pulse.heard(answer("n2", 1, agent="yes", offences="many"), now_s=1)
    assert pulse.with_agent(["n1", "n2", "stranger"]) == ["n1"]
    assert [pulse.offences(name) for name in ("n1", "n2", "stranger")] == [3, 0, 0]
