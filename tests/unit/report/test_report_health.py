# SPDX-License-Identifier: Apache-2.0
"""What became of a job's devices, as a page: findings first, a row a node that had any, a line for all the rest."""

from __future__ import annotations

from pathlib import Path

from stepguard.archive.reading import find
from stepguard.records.health import HealthChange, HealthEvent, HealthFinding, HealthRecord
from stepguard.report.health import health_page
from stepguard.report.job_page import job_page
from stepguard.report.screen import Screen
from unit.archive.building import START_S, manifest, node, write_record

EVIL = "\x1b]0;x\x07\n\u202e\udcff"
WELL = HealthRecord("ok", gpus=["GPU-1", "GPU-2"], seconds=3600.0, energy_j=5000.0)
BROKEN = HealthRecord(
    "fail",
    "replace",
    ["GPU-3", "GPU-4"],
    3599.0,
    changes=[
        HealthChange("unread", "GPU-4", "gpu", "0000:1f:00", "handle: GPU is lost", status="fail"),
        HealthChange("moved", "GPU-3", "pcie.replays", "1", "4", 3, "ok"),
    ],
    findings=[
        HealthFinding("fail", "GPU-4", "gpu-lost", "reboot", "handle: GPU is lost"),
        HealthFinding("warn", "/tmp", "space", "check", "97 % full", is_new=False),
    ],
    events=[
        HealthEvent(
            "xid",
            "79",
            "0000:1f:00",
            "hardware-replace",
            "replace",
            "fail",
            2,
            START_S + 60,
            START_S + 61,
            "GPU has fallen off the bus.",
        )
    ],
    throttled_ms={"hw_thermal": 1500.0},
    not_known={"GPU-3": ["power.energy_mj"]},
    reaction="n2 is out of service: Action:Replace",
)


def page(archive: Path, *nodes: HealthRecord | None, width: int | None = None) -> list[str]:
    parts = [node(f"n{number}", health=health) for number, health in enumerate(nodes, 1)]
    write_record(archive, manifest(nodes=[part.node for part in parts]), parts)
    [record] = find(archive, "12")
    return list(health_page(record, Screen(width=width)))


def test_nothing_happened_is_one_line(tmp_path: Path) -> None:
    assert page(tmp_path, WELL, WELL) == ["2 nodes, 4 GPUs: nothing found, nothing moved, 10 kJ used"]


def test_findings_first_then_a_row_then_the_rest(tmp_path: Path) -> None:
    assert page(tmp_path, WELL, BROKEN, None) == [
        "Findings",
        "  n2: fail xid 79 on 0000:1f:00 (hardware-replace, replace, 2 times): GPU has fallen off the bus.",
        "  n2: fail GPU-4: the GPU at 0000:1f:00 does not answer: handle: GPU is lost",
        "  n2: fail GPU-4: gpu-lost: handle: GPU is lost; reboot",
        "  n2: warn /tmp: space: 97 % full; check, as it was at the beginning",
        "",
        "Nodes",
        "  NODE  STATUS  ASKS FOR  GPUS  TOOK      CLOCKS HELD DOWN    MOVED                                 NOT KNOWN",
        "  n2    fail    replace   2     00:59:59  hw thermal 1500 ms  GPU-3: pcie.replays moved by 3, to 4"
        "  GPU-3: power.energy_mj",
        "",
        "What was done",
        "  n2: n2 is out of service: Action:Replace",
        "",
        "1 other node, 2 GPUs: nothing found, nothing moved, 5000 J used; nothing is known of n3",
    ]


def test_hundreds_of_findings_are_cut(tmp_path: Path) -> None:
    many = [HealthChange("moved", f"GPU-{number}", "rows.corrected", "0", "1", 1, "warn") for number in range(64)]
    found = page(tmp_path, HealthRecord("warn", changes=many))
    assert found[40] == "  n1: warn GPU-39: rows.corrected moved by 1, to 1"
    assert found[41] == "  24 more: with --json"


def test_what_users_may_have_written_there_harms_nobody(tmp_path: Path) -> None:
    """A record belongs to the job's owner, and an administrator reads it."""
    evil = HealthRecord(
        EVIL,
        EVIL,
        [EVIL],
        -1.0,
        [HealthChange(EVIL, EVIL, "{0.__class__}{by}", EVIL, EVIL, 1e17, EVIL)],
        [HealthFinding("fail", EVIL, EVIL, EVIL, EVIL)],
        [HealthEvent(EVIL, EVIL, EVIL, EVIL, EVIL, "warn", -3, -1e17, 1e17, EVIL)],
        1e17,
        {EVIL: 1e17},
        {EVIL: [EVIL]},
        EVIL,
        {EVIL: 1},
        EVIL,
    )
    for width in (None, 40):
        shown = "\n".join(page(tmp_path, evil, width=width))
        assert not set("\x1b\x07\u202e\udcff") & set(shown)
        assert "nothing found" not in shown


def test_a_node_whose_part_is_missing_is_not_well(tmp_path: Path) -> None:
    write_record(tmp_path, manifest(), [node("n1", health=WELL)])
    [record] = find(tmp_path, "12")
    assert list(health_page(record, Screen())) == [
        "1 node, 2 GPUs: nothing found, nothing moved, 5000 J used; nothing is known of n2"
    ]
    assert "  devices     ok, unknown on n2: stepguard job 12 health" in "\n".join(job_page(record, [record], Screen()))


def test_what_could_not_be_told_says_why(tmp_path: Path) -> None:
    unsure = HealthRecord(
        "unknown",
        findings=[HealthFinding("unknown", "GPU-4", "gpu-hangs", "check", "no answer, asked for: ecc")],
        events=[HealthEvent("unproven", "xid 48", "0000:1f:00", "ignore", "check", "unknown", 2)],
        not_known={"GPU-3": ["power.energy_mj"]},
        why="kernel-log: it cannot be read: gone",
    )
    lines = page(tmp_path, unsure)
    assert lines[0] == "Nodes"
    told = "kernel-log: it cannot be read: gone; GPU-4: gpu-hangs: no answer, asked for: ecc; "
    assert lines[2].endswith(f"{told}unproven xid 48 on 0000:1f:00, 2 times; GPU-3: power.energy_mj")
