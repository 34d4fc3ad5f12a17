# SPDX-License-Identifier: Apache-2.0
"""What the values that NVIDIA's tools print mean."""

from __future__ import annotations

import re

# NVML's NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, NOT_FOUND, DEPRECATED in nvidia-smi's words.
_NOT_TOLD = frozenset(
    {
        "",
        "n/a",
        "not supported",
        "not available",
        "insufficient permissions",
        "function not found",
        "not found",
        "requested functionality has been deprecated",
    }
)
# NVML's UNKNOWN, GPU_IS_LOST, RESET_REQUIRED, TIMEOUT: the driver failed to read the GPU.
_FAULTS = ("err!", "unknown error", "gpu is lost", "gpu requires reset", "timeout")
_FLAGS = {
    "yes": True,
    "true": True,
    "active": True,
    "enabled": True,
    "1": True,
    "no": False,
    "false": False,
    "not active": False,
    "disabled": False,
    "0": False,
}
_NUMBER = re.compile(r"[-+]?\d{1,18}(?:\.\d{1,9})?(?=x?(?:\s|$))")
_BUS_ID = re.compile(
    r"(?<![0-9A-Fa-f:])([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})(?:\.[0-9A-Fa-f])?(?![0-9A-Fa-f:])"
)


def is_told(value: str) -> bool:
    """Whether the value says anything: N/A and its like do not."""
    return _bare(value) not in _NOT_TOLD


def is_fault(value: str) -> bool:
    """Whether it stands where the driver failed to read the GPU: ERR!, [Unknown Error], [GPU is lost]."""
    return _bare(value).startswith(_FAULTS)


def flag(value: str) -> bool | None:
    """Yes or no, in one of the ways the tools say it; None where it is neither."""
    return _FLAGS.get(_bare(value))


def number(value: str) -> float | None:
    """The number that the value begins with, its unit dropped; None where it does not begin with one."""
    match = _NUMBER.match(value.strip())
    return float(match[0]) if match else None


def bus_id(text: str) -> str | None:
    """The first PCI address in the text in the kernel's form, 0000:0f:00."""
    match = _BUS_ID.search(text)
    return f"{int(match[1], 16):04x}:{match[2].lower()}:{match[3].lower()}" if match else None


def _bare(value: str) -> str:
    return value.strip().strip("[]").strip().rstrip(".").lower()
