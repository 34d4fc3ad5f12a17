# SPDX-License-Identifier: Apache-2.0
"""What a host's kernel says: a file in the form of /dev/kmsg that a test writes to, and the agent of the host reads.

kernel = Kernel(lab.root("n1") / "dev/kmsg")
kernel.xid(79, gpu=3)                        as of GPU 3 of lab.gpus
kernel.says("EXT4-fs error (device sda1): …")
"""

from __future__ import annotations

import time
from pathlib import Path

_XIDS = {
    13: "pid=77, name=python, Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0): Out Of Range Address",
    48: "pid=77, name=python, DBE (double bit error) on GPU",
    79: "pid=77, name=python, GPU has fallen off the bus.",
    154: "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
}
_ERROR = 3


class Kernel:
    """Writes into the kernel's log of a host; more than one may."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def says(self, *texts: str, priority: int = _ERROR, skipped: int = 0, ago_s: float = 0.0) -> None:
        """One record each. `priority` 8 and above is not the kernel's; `skipped` records were overwritten before."""
        sequence = self._last() + skipped
        at_us = int((time.monotonic() - ago_s) * 1e6)
        records = [f"{priority},{sequence + place},{at_us},-;{text}\n" for place, text in enumerate(texts, 1)]
        with self._path.open("a") as file:
            file.write("".join(records))

    def xid(self, code: int, gpu: int = 0, text: str = "", *, priority: int = _ERROR, ago_s: float = 0.0) -> None:
        """An XID of that GPU, in NVIDIA's words, or others."""
        self.says(self.xid_text(code, gpu, text), priority=priority, ago_s=ago_s)

    @staticmethod
    def xid_text(code: int, gpu: int = 0, text: str = "") -> str:
        """What the kernel says of it."""
        return f"NVRM: Xid (PCI:0000:{0x0F + 0x10 * gpu:02x}:00): {code}, {text or _XIDS[code]}"

    def _last(self) -> int:
        lines = self._path.read_text().splitlines()
        return int(lines[-1].split(",")[1]) if lines else -1
