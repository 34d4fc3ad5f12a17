# SPDX-License-Identifier: Apache-2.0
"""What a mail or a ticket quotes is read as if it were not quoted."""

from __future__ import annotations

import json

import pytest

from stepguard.health.explain import explain
from stepguard.health.explain.quotation import unquoted
from stepguard.health.model import Status
from unit.health.tools.samples import SAMPLES, Sample, text_of

GONE = "NVRM: Xid (PCI:0000:0f:00): 79, pid=4711, name=python, GPU has fallen off the bus."
MARKS = pytest.mark.parametrize("mark", ["> ", ">> ", "> > ", ">", "  > ", "| "])


def quoted(text: str, mark: str) -> bytes:
    """As mailers do: of an empty line, the mark's blank may be gone."""
    return "".join(f"{mark}{line}\n" if line else f"{mark.rstrip()}\n" for line in text.splitlines()).encode()


@MARKS
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_tools_output(sample: Sample, mark: str) -> None:
    plain = explain(sample.text.encode())
    content = quoted(sample.text, mark)
    for one in (explain(content), explain(content.replace(b"\n", b"\r\n"))):
        assert one.kind == plain.kind
        assert one.judgement.status is plain.judgement.status, one.judgement.reason
        assert one.judgement.devices == plain.judgement.devices


@MARKS
@pytest.mark.parametrize(
    "text",
    [
        f"[   12.345678] {GONE}\n",
        f"Jun  1 12:00:00 gpu-017 kernel: {GONE}\n",
        f"{GONE}\n",
        f"6,1,2,-;quiet\n SUBSYSTEM=pci\n3,2,3,-;{GONE}\n DEVICE=+pci:0000:0f:00.0\n",
        json.dumps({"dmesg": [{"pri": 3, "time": 12.345678, "msg": GONE}]}, indent=3),
        json.dumps({"_TRANSPORT": "kernel", "MESSAGE": GONE}) + "\n",
        json.dumps({"_TRANSPORT": "kernel", "MESSAGE": GONE}, indent="\t") + "\n",
    ],
    ids=["dmesg", "syslog", "bare", "kmsg", "dmesg --json", "journal json", "journal json-pretty"],
)
def test_a_log(text: str, mark: str) -> None:
    one = explain(quoted(text, mark))
    assert (one.kind, one.judgement.status) == ("kernel-log", Status.FAIL)
    assert one.judgement.events == explain(text.encode()).judgement.events


def test_a_line_has_the_number_that_it_has_in_the_mail() -> None:
    one = explain(
        f"On Tue Bob wrote:\n>> quiet\n>\n> > [   12.345678] {GONE}\n> > [   13.0] x\n> > [   14.0] x\n".encode()
    )
    assert [event.line for event in one.judgement.events] == [4]


def test_a_mail_that_quotes_two_tools() -> None:
    one = explain(
        b"Hi,\n\nnvidia-smi on gpu-03 says:\n\n"
        b"> Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error\n\nand ibstat\n"
        b"> CA 'mlx5_0'\n> \tPort 1:\n> \t\tState: Down\n> \t\tPhysical state: Polling\n"
    )
    assert one.kind == "nvidia-smi+ibstat"
    assert {device.device: device.status for device in one.judgement.devices} == {
        "0000:3b:00": Status.FAIL,
        "mlx5_0/1": Status.FAIL,
    }


@pytest.mark.parametrize(
    "text",
    [
        text_of("nvidia-smi/v580-healthy.txt"),
        "| NVIDIA-SMI 580.95.05    Driver Version: 580.95.05      |\n| N/A   31C    P0 | 4MiB |\n",
        "| Overall Health | Healthy                  |\n",
        "a | b\n| c\n",
        "a > b\n- > c\n",
        "",
    ],
)
def test_the_bars_of_a_table_are_no_marks(text: str) -> None:
    assert unquoted(text.encode()) == text.encode()
