# SPDX-License-Identifier: Apache-2.0
"""A kernel that says a thousand lines a second: none is lost, none told twice, and the agent answers all the while."""

from __future__ import annotations

import threading
import time

import pytest

from guarded import await_task, until
from lab.kernel import Kernel
from recorded import record_of, submit
from sick import health, kernel, sick_lab

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

BATCHES, LINES, BATCH_S = 100, 100, 0.1
# Lines of each batch that are events: (XID, GPU) → how many.
EVENTS = {(43, 0): 3, (48, 1): 2}
# Somebody's `logger` line, which is not the kernel's.
USERS = "<user> " + Kernel.xid_text(79)
USER_PRIORITY = 14
NOISE = "usb 1-1: new high-speed USB device number 3 using xhci_hcd, for the {}th time"


def pour(log: Kernel) -> None:
    """Ten seconds of it. A machine that is too slow for that takes longer, and all lines come the sooner together."""
    began_s = time.monotonic()
    events = [
        Kernel.xid_text(xid, gpu, "pid=77, name=python") for (xid, gpu), count in EVENTS.items() for _ in range(count)
    ]
    for batch in range(BATCHES):
        noise = [NOISE.format(number) for number in range(LINES - len(events) - 1)]
        log.says(*noise[:50], *events, *noise[50:])
        log.says(USERS, priority=USER_PRIORITY)
        time.sleep(max(0.0, began_s + (batch + 1) * BATCH_S - time.monotonic()))


def test_a_thousand_lines_a_second() -> None:
    with sick_lab(1) as lab:
        running = submit(lab, "srun sleep 300", "--gres=gpu:2", "--exclusive=user")
        await_task(lab, "n1", "sleep 300")
        log = kernel(lab, "n1")
        pouring = threading.Thread(target=pour, args=(log,))
        pouring.start()
        answers = 0
        while pouring.is_alive():
            answers += health(lab, "n1")["status"] in ("ok", "warn", "fail")
        pouring.join()
        assert answers > 0
        short = submit(lab, "true")  # its hooks ask the agent
        wanted = {key: count * BATCHES for key, count in EVENTS.items()}
        total = sum(wanted.values())
        until("all is read", lambda: health(lab, "n1")["counters"]["kernel_events"] >= total, 60, 0.2)

        found = health(lab, "n1")
        assert found["counters"]["kernel_events"] == total
        read = found["kernel_log"]
        assert (read["sequence"], read["lost"], read["garbage"]) == (BATCHES * LINES - 1, 0, 0)
        pci = ("0000:0f:00", "0000:1f:00")
        items = {(one["code"], one["gpu"]): (one["count"], one["status"]) for one in found["items"]}
        assert items == {(43, pci[0]): (wanted[43, 0], "warn"), (48, pci[1]): (wanted[48, 1], "fail")}
        said = [line for line in lab.agents.log("n1").splitlines() if "xid 48 on" in line]
        assert 1 <= len(said) <= 3, "once a minute"

        record = record_of(lab, short, within_s=60)
        assert (record.manifest.outcome, record.lacks) == ("completed", [])
        lab.run(["scancel", running], user="root")
        kept = record_of(lab, running, within_s=60).nodes["n1"].health
        assert kept is not None
        assert len(kept.events) <= 2 * len(EVENTS), "those of a minute are one"
        for (xid, gpu), count in wanted.items():
            assert sum(one.count for one in kept.events if (one.code, one.device) == (str(xid), pci[gpu])) == count
