# SPDX-License-Identifier: Apache-2.0
"""From events and findings to the node's verdict: age, repetition, overrides, hysteresis, what mends."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from stepguard.config import Health
from stepguard.health.kernel import LogLine, recognize
from stepguard.health.model import Action, Event, FaultClass, Report, Status
from stepguard.health.policy import NodeHealth
from unit.health.building import (
    GPU,
    OTHER,
    RULES,
    SHIPPED,
    UUIDS,
    XID_13,
    XID_48,
    XID_79,
    finding,
    looked_at,
    report,
    xid,
)

HOUR = 3600.0
OK, WARN, FAIL, UNKNOWN = Status.OK, Status.WARN, Status.FAIL, Status.UNKNOWN


def said(health: NodeHealth, now_s: float) -> tuple[Status, Action]:
    verdict = health.verdict(now_s)
    return verdict.status, verdict.action


# One event


@pytest.mark.parametrize(
    ("event", "verdict"),
    [
        (XID_79, (FAIL, Action.REPLACE)),
        (XID_48, (FAIL, Action.RESET_GPU)),
        (XID_13, (WARN, Action.NONE)),
        (xid(119, FaultClass.REBOOT, Action.REBOOT), (FAIL, Action.REBOOT)),
        (xid(43, FaultClass.IGNORE, Action.NONE), (OK, Action.NONE)),
        (xid(999, FaultClass.IGNORE, Action.CHECK), (UNKNOWN, Action.NONE)),
        (replace(XID_79, trusted=False), (OK, Action.NONE)),
        (Event(1, "nvme", "io-error", "nvme0", FaultClass.STORAGE, Action.CHECK), (WARN, Action.NONE)),
    ],
)
def test_an_event_counts_by_its_class(event: Event, verdict: tuple[Status, Action]) -> None:
    health = looked_at()
    health.add_event(event, 10)
    assert said(health, 11) == verdict


def test_a_node_that_nothing_has_looked_at_is_unknown() -> None:
    health = NodeHealth(RULES, "boot-1")
    assert said(health, 0) == (UNKNOWN, Action.NONE)
    health.add_event(XID_13, 1)
    assert said(health, 2) == (WARN, Action.NONE)


def test_identical_events_are_one_item_with_a_count() -> None:
    health = looked_at()
    for second in (5.0, 9.0, 7.0):
        health.add_event(xid(79, text=f"at {second:g}"), second)
    (item,) = health.verdict(10).items
    assert (item.count, item.since_s, item.last_s, item.text) == (3, 5, 9, "at 9")
    assert (item.source, item.code, item.device, item.gpu) == ("xid", 79, GPU, GPU)
    assert str(item) == f"xid 79 on {GPU}: at 9"


# Age


@pytest.mark.parametrize(
    ("event", "age_s"), [(XID_79, Health().hardware_age_s), (XID_48, Health().hardware_age_s), (XID_13, HOUR)]
)
def test_an_event_counts_until_it_is_too_old(event: Event, age_s: float) -> None:
    health = looked_at()
    health.add_event(event, 100)
    assert health.verdict(100 + age_s).items
    assert not health.verdict(100 + age_s + 1).items


# Repetition


@pytest.mark.parametrize(
    ("times_s", "hardware"),
    [
        ([0], False),
        ([0, 10, 20, 30], False),
        ([0, 10, 20, 30, 40], True),
        ([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6], False),  # the lines of one crash
        ([1.9, 2.1, 10, 20, 30], False),
        ([0, 10, 20, 30, 86_401], False),
        ([0, 10, 20, 30, 86_400], True),
        ([0, 50_000, 86_500, 86_510, 86_520, 86_530], True),
    ],
)
def test_an_application_error_that_repeats_on_one_gpu_is_hardware(times_s: list[float], hardware: bool) -> None:
    health = looked_at()
    for time_s in times_s:
        health.add_event(XID_13, time_s)
    assert said(health, times_s[-1] + 1) == ((FAIL, Action.RESET_GPU) if hardware else (WARN, Action.NONE))


def test_repetition_is_counted_for_each_gpu() -> None:
    health = looked_at()
    for number in range(8):
        health.add_event(replace(XID_13, device=GPU if number % 2 else OTHER), number * 10.0)
        health.add_event(replace(XID_13, device=""), number * 10.0)
    assert said(health, 100) == (WARN, Action.NONE)
    health.add_event(replace(XID_13, device="GPU-1"), 101)
    verdict = health.verdict(102)
    assert [item.gpu for item in verdict.items if item.status is FAIL] == [GPU]


def test_what_has_repeated_outlives_the_window_as_hardware_does() -> None:
    health = looked_at()
    for number in range(5):
        health.add_event(XID_13, number * 10.0)
    assert said(health, 3 * 86_400) == (FAIL, Action.RESET_GPU)


# What the driver says


def recovery(action: Action, device: str = "GPU-1") -> Report:
    status = OK if action is Action.NONE else FAIL
    return report("nvml", finding("recovery-action", status, device, action, action.value))


def xid_154(action: Action, device: str = GPU) -> Event:
    classes = {Action.NONE: FaultClass.IGNORE, Action.RESET_GPU: FaultClass.HARDWARE_RESET}
    return xid(154, classes.get(action, FaultClass.REBOOT), action, device)


@pytest.mark.parametrize(
    ("event", "action", "verdict"),
    [
        (XID_79, Action.REBOOT, (FAIL, Action.REBOOT)),
        (XID_79, Action.RESET_GPU, (FAIL, Action.RESET_GPU)),
        (XID_79, Action.NONE, (WARN, Action.NONE)),
        (XID_48, Action.REBOOT, (FAIL, Action.REBOOT)),
        (XID_48, Action.NONE, (WARN, Action.NONE)),
    ],
)
@pytest.mark.parametrize("first", ["the code", "the driver"])
def test_xid_154_and_nvml_beat_the_table(
    event: Event, action: Action, verdict: tuple[Status, Action], first: str
) -> None:
    by_xid, by_nvml = looked_at(), looked_at()
    code_s, said_s = (10.0, 11.0) if first == "the code" else (10.5, 10.0)
    by_xid.add_event(event, code_s)
    by_xid.add_event(xid_154(action), said_s)
    by_nvml.add_event(event, code_s)
    by_nvml.add_report(recovery(action), said_s)
    assert said(by_xid, 20) == verdict
    assert said(by_nvml, 20) == verdict


def test_the_last_word_of_the_driver_counts_and_only_for_its_gpu_and_what_came_before() -> None:
    health = looked_at()
    health.add_event(XID_48, 10)
    health.add_event(replace(XID_79, device=OTHER), 10)
    health.add_event(xid_154(Action.RESET_GPU), 11)
    health.add_event(xid_154(Action.NONE), 60)
    actions = {item.gpu: item.action for item in health.verdict(61).items if item.code in (48, 79)}
    assert actions == {GPU: Action.NONE, OTHER: Action.REPLACE}
    health.add_event(XID_48, 100)
    assert said(health, 101) == (FAIL, Action.REPLACE)
    actions = {item.gpu: item.action for item in health.verdict(101).items if item.code == 48}
    assert actions == {GPU: Action.RESET_GPU}


def test_words_that_nobody_knows_override_nothing() -> None:
    health = looked_at()
    health.add_event(XID_79, 10)
    health.add_event(xid(154, FaultClass.IGNORE, Action.CHECK), 11)
    assert said(health, 12) == (FAIL, Action.REPLACE)


def kernel_said(health: NodeHealth, *texts: str, at_s: float = 10.0) -> None:
    for text in texts:
        for event in recognize(LogLine(1, None, "", "kernel", f"NVRM: {text}", True)):
            health.add_event(event, at_s)


GONE = ("Xid (PCI:0000:0f:00): 79, GPU has fallen off the bus.", "GPU 0000:0f:00.0: GPU has fallen off the bus.")
RECOVERY = "Xid (PCI:0000:0f:00): 154, GPU recovery action changed from 0x0 (None) to "


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        ("", (FAIL, Action.REPLACE)),
        ("0x0 (None)", (WARN, Action.NONE)),
        ("0x1 (GPU Reset Required)", (FAIL, Action.RESET_GPU)),
        ("0x2 (Node Reboot Required)", (FAIL, Action.REBOOT)),
        ("0x3 (Drain P2P)", (FAIL, Action.REPLACE)),
        ("0x8 (Something New)", (FAIL, Action.REPLACE)),
    ],
)
def test_what_is_done_to_a_gpu_that_is_gone(asked: str, verdict: tuple[Status, Action]) -> None:
    """By the catalogue that is shipped: for the XID and for the line beside it that has none."""
    health = looked_at(SHIPPED)
    kernel_said(health, *GONE, *([RECOVERY + asked] if asked else []))
    assert said(health, 20) == verdict
    gone = [item for item in health.verdict(20).items if item.code != 154]
    assert {item.action for item in gone} == {verdict[1]}
    assert len(gone) == 2


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        ("0x3 (Drain P2P)", (WARN, Action.NONE)),
        ("0x5 (Recover IMEX Domain)", (WARN, Action.NONE)),
        ("0x8 (Something New)", (UNKNOWN, Action.NONE)),
        ("None of the above", (UNKNOWN, Action.NONE)),
    ],
)
def test_what_the_driver_asks_for_that_nobody_can_do_leads_to_nothing(
    asked: str, verdict: tuple[Status, Action]
) -> None:
    health = looked_at(SHIPPED)
    kernel_said(health, RECOVERY + asked)
    assert said(health, 20) == verdict


def test_what_does_not_yield_stays() -> None:
    health = looked_at()
    health.add_report(report("nvml", finding("row-remap-failure")), 10)
    health.add_event(xid_154(Action.NONE), 11)
    assert said(health, 12) == (FAIL, Action.REPLACE)


# Findings


def seen(pattern: str, every_s: float = 60.0) -> tuple[NodeHealth, float]:
    """A probe asked again and again: x found, . not found, ? no answer. The time of the last report."""
    health, now_s = looked_at(), 0.0
    reports = {"x": report("nvml", finding()), ".": report("nvml"), "?": report("nvml", status=UNKNOWN, reason="hung")}
    for sign in pattern:
        now_s += every_s
        health.add_report(reports[sign], now_s)
    return health, now_s


@pytest.mark.parametrize(
    ("pattern", "status"),
    [
        ("x", FAIL),
        ("x.", FAIL),
        ("x.....", FAIL),
        ("x......", OK),  # 300 s from the first look without it
        ("x....??", FAIL),
        ("x?", FAIL),
        ("x" + "?" * 50, FAIL),
        ("x......?", UNKNOWN),
        ("?", UNKNOWN),
        ("?.", OK),
        ("x..x......", OK),
        ("x.x.x......", FAIL),  # it flaps
        ("x.x.x" + "." * 60, FAIL),
        ("x.x.x" + "." * 61, OK),
    ],
)
def test_a_finding_must_be_away_for_a_while_before_it_is_gone(pattern: str, status: Status) -> None:
    health, now_s = seen(pattern)
    assert health.verdict(now_s + 1).status is status


def test_no_report_is_no_absence() -> None:
    health, now_s = seen("x.")
    assert health.verdict(now_s + 10 * HOUR).status is FAIL


def test_an_episode_has_its_beginning_and_its_count() -> None:
    health, now_s = seen("x.x")
    assert [(item.since_s, item.count) for item in health.verdict(now_s).items] == [(60, 2)]
    health, now_s = seen("x.......x")
    assert [(item.since_s, item.count) for item in health.verdict(now_s).items] == [(540, 2)]


def test_a_finding_that_gets_better_is_as_bad_as_it_was_for_a_while() -> None:
    health = looked_at()
    health.add_report(report("host", finding("shm-full", FAIL, "", Action.CHECK)), 0)
    better = report("host", finding("shm-full", WARN, "", Action.CHECK))
    for number in range(1, 7):
        health.add_report(better, number * 60.0)
        expected = FAIL if number < 6 else WARN
        assert [item.status for item in health.verdict(number * 60.0).items] == [expected]


def test_a_finding_that_cannot_be_told_any_more_stays() -> None:
    health = looked_at()
    health.add_report(report("nvml", finding()), 0)
    for number in range(1, 20):
        health.add_report(report("nvml", finding(status=UNKNOWN), status=WARN), number * 60.0)
    assert said(health, 2000) == (FAIL, Action.REPLACE)


def test_a_report_that_fails_without_saying_why_asks_for_a_look() -> None:
    health = looked_at()
    health.add_report(report("dcgm", status=FAIL, reason="exit status 226"), 0)
    (item,) = health.verdict(1).items
    assert (item.status, item.action, item.text) == (FAIL, Action.CHECK, "exit status 226")


def test_a_difference_counts_once_as_an_event_does() -> None:
    health = looked_at()
    moved = finding("row-remap-failure", device="GPU-2")
    counted = finding("ecc-corrected", WARN, "GPU-1", Action.RESET_GPU)
    health.add_difference([moved, counted, finding("energy", OK), finding("pcie", UNKNOWN)], 10)
    health.add_report(report("nvml"), 10)
    found = [(item.source, item.code, item.gpu, item.status, item.action) for item in health.verdict(20).items]
    assert found == [
        ("difference", "row-remap-failure", OTHER, FAIL, Action.REPLACE),
        ("difference", "ecc-corrected", GPU, WARN, Action.CHECK),
    ]
    assert [item.code for item in health.verdict(10 * HOUR).items] == ["row-remap-failure"]


def test_probes_that_are_asked_no_more_are_forgotten() -> None:
    health = looked_at()
    health.add_report(report("host", finding("disk-full", WARN, "")), 0)
    health.keep_probes(["nvml"])
    assert said(health, 1) == (OK, Action.NONE)


# What mends


@pytest.mark.parametrize(
    ("event", "by_reset", "by_reboot"),
    [(XID_13, True, True), (XID_48, True, True), (xid_154(Action.REBOOT), False, True), (XID_79, False, False)],
)
def test_a_reset_and_a_reboot_clear_what_they_mend(event: Event, by_reset: bool, by_reboot: bool) -> None:
    health = looked_at()
    health.add_event(event, 10)
    kept = json.loads(json.dumps(health.to_state(20)))
    health.reset("GPU-2", 20, 20)
    assert health.verdict(21).items
    health.reset("GPU-1", 9.9, 20)
    assert health.verdict(21).items, "it has come since the GPU was last seen before the reset"
    health.reset("GPU-1", 10, 20)
    assert (not health.verdict(21).items) is by_reset
    booted = NodeHealth.from_state(kept, RULES, "boot-2", 3)
    assert (not booted.verdict(4).items) is by_reboot
    assert booted.verdict(4).status is (UNKNOWN if by_reboot else FAIL), "no probe has looked since"


def test_a_reboot_mends_what_the_driver_said_it_would() -> None:
    health = looked_at()
    health.add_event(XID_79, 10)
    health.add_event(xid_154(Action.REBOOT), 10)
    booted = NodeHealth.from_state(health.to_state(20), RULES, "boot-2", 3)
    assert booted.verdict(4).items == ()


def test_ages_go_on_over_a_reboot() -> None:
    health = looked_at()
    health.add_event(XID_79, 1000)
    booted = NodeHealth.from_state(health.to_state(4000), RULES, "boot-2", 5)
    left_s = Health().hardware_age_s - 3000
    assert booted.verdict(5 + left_s).items
    assert not booted.verdict(5 + left_s + 1).items


def test_another_gpu_in_its_place_is_well() -> None:
    health = looked_at()
    health.add_event(XID_79, 10)
    health.add_event(replace(XID_79, device=OTHER), 10)
    health.know_gpus({"GPU-2": UUIDS["GPU-2"]}, 20)
    assert len(health.verdict(21).items) == 2, "one that is missing has fallen off the bus"
    health.know_gpus({"GPU-9": UUIDS["GPU-1"], "GPU-2": UUIDS["GPU-2"]}, 30)
    assert [item.gpu for item in health.verdict(31).items] == [OTHER]


# For a job


def test_a_job_is_concerned_by_its_gpus_and_by_the_node() -> None:
    health = looked_at()
    health.add_event(XID_79, 10)
    disk = Event(1, "nvme", "io-error", "0000:5e:00", FaultClass.STORAGE, Action.CHECK)
    health.add_event(disk, 10)
    assert health.verdict_for(["GPU-1"], 11).status is FAIL
    assert health.verdict_for(["00000000:0F:00.0"], 11).status is FAIL
    assert health.verdict_for(["GPU-2"], 11).status is WARN
    assert [item.source for item in health.verdict_for([], 11).items] == ["nvme"]


def test_a_gpu_that_is_known_to_nobody_is_still_one() -> None:
    health = NodeHealth(RULES, "boot-1")
    health.add_event(XID_79, 10)
    assert health.verdict_for([OTHER], 11).items == ()
    assert health.verdict_for(["0000:0F:00.0"], 11).status is FAIL
    health.add_report(report("nvml", finding(device="GPU-7")), 12)
    health.know_gpus({"GPU-7": "0000:20:00.0"}, 13)
    assert health.verdict_for(["0000:20:00"], 14).status is FAIL
