# SPDX-License-Identifier: Apache-2.0
"""Texts that want to do harm: an answer, never OK, in time and memory that go with their size."""

from __future__ import annotations

import tracemalloc

import pytest

from stepguard.health.model import Status
from stepguard.health.tools.conclusion import printable
from stepguard.health.tools.kind import LINE_CHARS, MAX_CHARS, lines
from stepguard.health.tools.kinds import KINDS
from unit.health.tools.samples import kind_of

HOSTILE = {
    "zeros": "\0" * (1 << 20),
    "one line": "a" * (4 << 20),
    "blanks": " " * (2 << 20),
    "many lines": "x\n" * 20_000,
    "rows": "| a | b | c |\n" * 20_000,
    "arrays": "[" * 500_000,
    "objects": '{"neuron_device":' * 100_000,
    "elements": "<nvidia_smi_log>" + "<gpu>" * 200_000,
    "documents": "<nvidia_smi_log>" * 20_000,
    "a long value": "<nvidia_smi_log><gpu><name>" + "b" * (4 << 20),
    "a long number": '{"neuron_device": ' + "9" * 100_000 + "}",
    "commas": "index, temperature.gpu\n" + "," * (1 << 20),
    "adapters": "".join(f"CA 'a{number}'\n" for number in range(10_000)),
    "sections": "GPU 00000000:1B:00.0\n" * 10_000,
    "undecoded": "\udcff\udcfe\n" * 10_000,
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", HOSTILE)
def test_an_answer(kind: object, name: str) -> None:
    one = next(known for known in KINDS if known is kind)
    one.recognizes(HOSTILE[name])
    said = one.read(HOSTILE[name], None)
    assert said.status is not Status.OK
    assert len(said.devices) <= 4096
    assert len(said.reason) < 2000


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_is_too_large_is_refused(kind: object) -> None:
    one = next(known for known in KINDS if known is kind)
    said = one.read("x" * (MAX_CHARS + 1), 0)
    assert said.status is Status.UNKNOWN
    assert "too large" in said.reason


@pytest.mark.parametrize("name", ["entities", "external-entity"])
def test_no_entity_of_a_document_is_used(name: str) -> None:
    tracemalloc.start()
    kind = kind_of("nvidia-smi-xml")
    bomb = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    text = f'<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY a0 "ha">{bomb}<!ENTITY p SYSTEM "file:///etc/passwd">]>'
    used = "&a11;" if name == "entities" else "&p;"
    text += f'<nvidia_smi_log><gpu id="00000000:1B:00.0"><gpu_recovery_action>{used}</gpu_recovery_action></gpu>'
    text += "</nvidia_smi_log>"
    said = kind.read(text, 0)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert said.status is Status.UNKNOWN
    assert "undefined entity" in said.reason
    assert peak_bytes < 1 << 20


def test_a_document_of_another_root_is_no_report() -> None:
    kind = kind_of("nvidia-smi-xml")
    assert not kind.recognizes("<html><gpu/></html>")
    assert kind.read("<html><gpu id='0'/></html>", 0).status is Status.UNKNOWN


def test_a_process_cannot_speak_for_a_gpu() -> None:
    """A user names processes; a table's list of them is not read, whatever stands in it."""
    table = (
        "| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |\n"
        "|   0  NVIDIA H200              On  |   00000000:1B:00.0 Off |                    0 |\n"
        "| N/A   31C    P0    76W / 700W |      4MiB / 143771MiB |      0%      Default |\n"
        "+-----------------------------------------+------------------------+----------------------+\n"
        "| Processes:                                                                              |\n"
        "|    1  x  | 00000000:43:00.0 Off | 99 |\n"
        "|    2  ERR!  | 00000000:52:00.0 ERR! | ERR! |\n"
        "+-----------------------------------------------------------------------------------------+\n"
    )
    said = kind_of("nvidia-smi").read(table, 0)
    assert [(one.device, one.status) for one in said.devices] == [("0000:1b:00", Status.OK)]


def test_long_lines_are_cut() -> None:
    assert [len(line) for line in lines("a" * (LINE_CHARS + 5) + "\r\nb\n\nc")] == [LINE_CHARS, 1, 0, 1]


def test_only_what_can_be_printed_is_shown() -> None:
    assert printable("GPU\t0\udcff\x1b[31m", 64) == "GPU 0??[31m"
    assert printable("a" * 10, 4) == "aaa…"
