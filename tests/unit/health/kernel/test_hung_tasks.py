# SPDX-License-Identifier: Apache-2.0
"""Hung tasks, and what the lines behind them say that they wait for."""

from __future__ import annotations

import pytest

from stepguard.health.explain import explain
from stepguard.health.model import Status

HUNG = "INFO: task {}:88123 blocked for more than 241 seconds."
HEAD = "task:{:<16}state:D stack:    0 pid:88123 ppid: {:>5} flags:0x00004006"
SCHEDULE, DRIVER = " __schedule+0x24e/0x590", " os_acquire_rwlock_write+0x35/0x50 [nvidia]"
LUSTRE = " cl_sync_io_wait+0x1b4/0x3c0 [obdclass]"


def told(*lines: str) -> tuple[Status, list[tuple[object, str, int]]]:
    judgement = explain("".join(f"[41122.883119] {line}\n" for line in lines).encode()).judgement
    return judgement.status, [(event.code, event.device, event.count) for event in judgement.events]


def stack(task: str, parent: int, *frames: str) -> tuple[str, ...]:
    return (HUNG.format(task), "      Tainted: P", HEAD.format(task, parent), "Call Trace:", " <TASK>", *frames)


@pytest.mark.parametrize("frame", [DRIVER, " uvm_down_write+0x1/0x2 [nvidia_uvm]", f"{DRIVER[:-1]} {'0a' * 20}]"])
def test_in_the_gpus_driver(frame: str) -> None:
    found = [("hung-task", "nvidia-smi", 1), ("hung-in-driver", "nvidia-smi", 1)]
    assert told(*stack("nvidia-smi", 1, SCHEDULE, frame, DRIVER)) == (Status.FAIL, found)


def test_a_thread_of_the_driver() -> None:
    found = [("hung-task", "nv_queue", 1), ("hung-in-driver", "nv_queue", 1)]
    assert told(*stack("nv_queue", 2)) == (Status.FAIL, found)
    assert told(*stack("nv_queue", 4711)) == (Status.WARN, found[:1])


@pytest.mark.parametrize(
    "frames",
    [
        (SCHEDULE,),
        (SCHEDULE, LUSTRE),
        (LUSTRE, DRIVER),
        (" ? os_acquire_rwlock_write+0x35/0x50 [nvidia]",),
        ("a+0x1/0x2 [nvidia]: train: potentially unexpected fatal signal 11.",),
    ],
)
def test_for_something_else(frames: tuple[str, ...]) -> None:
    assert told(*stack("python", 1, *frames)) == (Status.WARN, [("hung-task", "python", 1)])


def test_each_task_has_its_own_lines() -> None:
    first, second = stack("python", 1, LUSTRE), stack("nvidia-smi", 1, DRIVER)
    found = [("hung-task", "python", 1), ("hung-task", "nvidia-smi", 1), ("hung-in-driver", "nvidia-smi", 1)]
    assert told(*first, *second) == (Status.FAIL, found)
    assert told(*second[:2], *["usb 1-1: new device"] * 80, DRIVER)[0] is Status.WARN
    assert told(SCHEDULE, DRIVER) == (Status.OK, [])
