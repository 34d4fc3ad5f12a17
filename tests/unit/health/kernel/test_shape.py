# SPDX-License-Identifier: Apache-2.0
"""What may stand around a log's lines, and what makes a program's output of a text."""

from __future__ import annotations

import pytest

from stepguard.health.kernel import events
from stepguard.health.kernel.lines import read, whole_shape
from stepguard.health.kernel.shape import Shape

GONE = "[834123.456789] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x, GPU has fallen off the bus.\n"
USB = "[834124.456789] usb 1-1: USB disconnect, device number 4\n"
LONG = "[834125.456789] nvidia 0000:0f:00.0: PCIe Bus Error: severity=Corrected, type=Physical"


def shape(text: str) -> Shape:
    return whole_shape(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        f"{{noformat}}\n{GONE}{{noformat}}\n",
        f"h2. GPU lost\n{{code:bash|title=dmesg}}\n{GONE}{{code}}\n",
        f"[code]\n{GONE}[/code]\n",
        f"<pre>\n{GONE}</pre>\n",
        f"```\n{GONE}```\n",
        f"---------------\nn[12-13] (2)\n---------------\n{GONE}",
        f"----------------\nn12\n----------------\n{GONE}----------------\nn13,n15\n----------------\n{USB}",
        f"Hi,\nplease look at this:\n{GONE}Thanks, Bob\n",
        f"Hello support, my job died again.\n\ndmesg -T:\n{GONE}\nBest regards\nBob Smith\n",
        f"bob  3:14 PM\n{GONE}",
        f"On Tue, Mar 12, 2024 Bob wrote:\n{GONE}",
        f"root@n1:~# dmesg\n{GONE}root@n1:~# \n",
        f"[sudo] password for bob: \n{GONE}",
        f"==> /var/log/kern.log <==\n{GONE}lines 1-1/1 (END)\n",
        f"Message from syslogd@n1 at Mar 12 03:14:15 ...\n{GONE}",
        f"{LONG} Layer, (Transmitter\nID)\n{USB}",
        f"{USB}    of several\n    lines\n",
        f"__CURSOR=1\n_TRANSPORT=kernel\nMESSAGE\n12345678one\ntwo\n_PID=1\n\n{GONE}",
        f"{USB * 99}{GONE}odd\n",
    ],
)
def test_a_log(text: str) -> None:
    assert shape(text) is Shape.LOG


@pytest.mark.parametrize(
    "text",
    [
        f"epoch 1\n{GONE * 8}",
        f"{GONE * 5}step 100 loss 0.3\n",
        f"step 100 loss 0.3\n{GONE}{USB * 50}",
        f"{LONG}\n" + "".join(f"step {n} loss 0.3\n" for n in range(9)),
        f"{USB * 97}{GONE}odd\n",
        f"Hi,\nmy job says:\nstep 100\n{GONE}step 101\nThanks, Bob\n",
        f"We rebooted it.\n{GONE}",
        f"---------------\nstep 100 loss 0.3\n---------------\n{GONE}",
        f"n12\n{GONE}",
        f"Traceback (most recent call last):\n  File 'a'\n{GONE}",
        "Hi,\nThanks\n",
    ],
)
def test_no_log(text: str) -> None:
    assert shape(text) is Shape.OTHER


def test_an_excerpt_in_a_mail() -> None:
    bare = GONE.partition("] ")[2]
    assert shape(f"Hi,\nlook:\n{bare}Thanks\n") is Shape.EXCERPT
    assert shape(f"epoch 1\n{bare}") is Shape.OTHER


LOCKUP = "watchdog: BUG: soft lockup - CPU#12 stuck for 26s! [python:1234]\n"


@pytest.mark.parametrize(
    "text",
    [
        f"kernel: {LOCKUP}",
        f"kernel:{LOCKUP}",
        f"\nMessage from syslogd@n1 at Mar 12 03:14:15 ...\n kernel:NMI {LOCKUP}",
        f"Broadcast message from systemd-journald@n1 (Tue 2024-03-12 03:14:15 UTC):\n\nkernel[0]: {LOCKUP}",
    ],
)
def test_what_all_terminals_were_told(text: str) -> None:
    assert shape(text) is Shape.EXCERPT
    assert [(event.code, event.trusted) for event in events(read(text.encode()))] == [("soft-lockup", True)]
    assert shape(f"epoch 1\n{text}") is Shape.OTHER


def test_the_kernels_tag_alone_makes_no_kernel_line_of_a_programs() -> None:
    assert shape("kernel: epoch 1\n") is Shape.OTHER
    assert shape(f"alice: kernel: {LOCKUP}") is Shape.OTHER
    assert shape(f"kernel[4711]: {LOCKUP}") is Shape.OTHER
