# SPDX-License-Identifier: Apache-2.0
"""What of a thing all may know: nothing that a user can choose."""

from __future__ import annotations

import pytest

from stepguard.health.discretion import finding_for_all, item_for_all, reason_for_all, words_for_all
from stepguard.health.marking import decide
from stepguard.health.model import Action, FaultClass, Finding, Status
from stepguard.health.probes.report import conclude
from stepguard.health.verdict import Item, verdict_of
from unit.health.building import node

GPU = "0000:0f:00"
XID = f"NVRM: Xid (PCI:{GPU}): "


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("48, pid=4244, name=secret, DBE (double bit error) on GPU", "48, DBE (double bit error) on GPU"),
        ("79, pid='4244', name=secret, GPU has fallen off the bus.", "79, GPU has fallen off the bus."),
        ("79, pid='<unknown>', name=<unknown>, GPU has fallen off", "79, GPU has fallen off"),
        ("48, pid=4244, name=my, secret, too, DBE on GPU", "48, DBE on GPU"),
        ("48, pid=4244, name=secret", "48"),
        ("48, pid=4244, name=secret without a comma behind it", "48"),
        (
            f"45, pid=1, name=a, Ch 8{XID}48, pid=2, name=secret, DBE (double bit error) on GPU",
            f"45, Ch 8{XID}48, DBE (double bit error) on GPU",
        ),
        ("31, pid=1, name=a, MMU Fault: GPCCLIENT_T1_0 faulted @ 0x7f52_5ec2e75.", "31, MMU Fault: GPCCLIENT_T1_0"),
        ("154, GPU recovery action changed", "154, GPU recovery action changed"),
    ],
)
def test_the_program_of_an_xid_is_left_out(said: str, left: str) -> None:
    assert words_for_all("xid", 48, GPU, XID + said) == (GPU, XID + left)


@pytest.mark.parametrize(
    ("source", "code", "device", "text", "left"),
    [
        ("lockup", "soft-lockup", "cpu3", "BUG: soft lockup - CPU#3 stuck for 23s! [secret:4711]", ("cpu3", "")),
        ("lockup", "hung-task", "secret", "INFO: task secret:4711 blocked for more than 120 seconds.", ("", "")),
        ("oom", "cgroup", "/user.slice/secret", "oom-kill:…,task=secret,pid=3", ("", "")),
        ("nvme", "fs-error", "sda1", "EXT4-fs error (device sda1): ext4_lookup:1: comm secret: bad", ("sda1", "")),
        (
            "mce",
            "uncorrected",
            "dimm0",
            "EDAC MC0: 1 UE memory read error",
            ("dimm0", "EDAC MC0: 1 UE memory read error"),
        ),
    ],
)
def test_words_in_which_a_driver_may_name_a_program_are_not_passed_on(
    source: str, code: str, device: str, text: str, left: tuple[str, str]
) -> None:
    assert words_for_all(source, code, device, text) == left


def test_only_the_words_on_what_has_failed_are_told() -> None:
    def told(status: Status) -> str:
        event = (
            GPU,
            GPU,
            status,
            Action.REBOOT,
            f"{XID}48, pid=1, name=secret, DBE (double bit error) on GPU",
            0.0,
            0.0,
            1,
        )
        return str(item_for_all(Item("xid", 48, *event, FaultClass.HARDWARE_RESET)))

    assert told(Status.FAIL) == f"xid 48 on {GPU}: {XID}48, DBE (double bit error) on GPU"
    assert told(Status.WARN) == f"xid 48 on {GPU}"


def test_a_probe_does_not_tell_all_whose_process_it_is() -> None:
    stuck = Finding(Status.FAIL, "pid 4711", "unkillable", Action.REBOOT, "secret was killed and waits, for 70 s")
    full = Finding(Status.WARN, "/tmp", "space", Action.CHECK, "2 % free")
    assert finding_for_all(full) == full
    assert finding_for_all(stuck).device == "" and "secret" not in finding_for_all(stuck).evidence
    reason = reason_for_all(conclude("host", [stuck, full], "well"))
    assert reason == "unkillable: a process was killed and waits for a device"
    assert reason_for_all(conclude("host", [full], "well")) == "/tmp: space: 2 % free"


@pytest.mark.parametrize("reaction", ["gate", "drain", "fail"])
def test_slurms_reason_and_comment_name_no_program(reaction: str) -> None:
    event = (
        GPU,
        GPU,
        Status.FAIL,
        Action.RESET_GPU,
        f"{XID}48, pid=4244, name=secret, DBE (double bit error) on GPU",
        0.0,
        0.0,
        1,
    )
    verdict = verdict_of([Item("xid", 48, *event, FaultClass.HARDWARE_RESET)], True)
    told = repr(decide(verdict, node(), reaction, {}))  # type: ignore[arg-type]
    assert "secret" not in told and "4244" not in told and "48, DBE" in told
