# SPDX-License-Identifier: Apache-2.0
"""GPUs that another driver has, in the lines of NVIDIA's."""

from __future__ import annotations

import pytest

from stepguard.health.explain import explain
from stepguard.health.model import Status

# As drivers of branch 550 and later print them, and of branch 470.
BOUND = "NVRM: GPU 0000:{}:00.0 is already bound to {}."
NOT_CALLED = "NVRM: The NVIDIA probe routine was not called for 1 device(s)."
ADVICE = (
    "NVRM: This can occur when another driver was loaded and ",
    "NVRM: obtained ownership of the NVIDIA device(s).",
    "NVRM: Try unloading the conflicting kernel module (and/or",
    "NVRM: reconfigure your kernel without the conflicting",
    "NVRM: driver(s)), then try loading the NVIDIA kernel module",
    "NVRM: again.",
)
NONE = "NVRM: No NVIDIA devices probed."


def told(*lines: str) -> tuple[Status, list[tuple[object, str, int]]]:
    judgement = explain("".join(f"[   21.100100] {line}\n" for line in lines).encode()).judgement
    return judgement.status, [(event.code, event.device, event.count) for event in judgement.events]


def test_nouveau_has_it() -> None:
    bound = BOUND.format("41", "nouveau")
    held = (Status.FAIL, [("held", "0000:41:00", 1)])
    assert told(bound) == held
    assert told(bound, NOT_CALLED, NONE) == held
    assert told(bound, NOT_CALLED, *ADVICE, NONE) == held


def test_a_release_that_does_not_say_which() -> None:
    assert told(NOT_CALLED, *ADVICE, NONE) == (Status.FAIL, [("held", "", 1)])


@pytest.mark.parametrize("driver", ["vfio-pci", "nvgrace_gpu_vfio_pci", "pci-stub", "xen-pciback"])
def test_one_for_a_virtual_machine_is_right(driver: str) -> None:
    bound = BOUND.format("41", driver)
    assert told(bound, NOT_CALLED, *ADVICE, NONE) == (Status.OK, [("given-away", "0000:41:00", 1)])


def test_each_of_several() -> None:
    first, second = BOUND.format("41", "nouveau"), BOUND.format("61", "vfio-pci")
    assert told(first, second, NOT_CALLED) == (
        Status.FAIL,
        [("held", "0000:41:00", 1), ("given-away", "0000:61:00", 1)],
    )


def test_a_node_without_a_gpu() -> None:
    assert told(NONE) == (Status.UNKNOWN, [("none-found", "", 1)])
    late = told(BOUND.format("41", "nouveau"), *["usb 1-1: new device"] * 12, NONE)
    assert late == (Status.FAIL, [("held", "0000:41:00", 1), ("none-found", "", 1)])
