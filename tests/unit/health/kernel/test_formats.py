# SPDX-License-Identifier: Apache-2.0
"""A line tells the same in every format that it can stand in, and is trusted where the kernel wrote it."""

from __future__ import annotations

import collections
import json
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from stepguard.health.kernel import LogLine, events
from stepguard.health.kernel.lines import MAX_LINE_BYTES, read
from stepguard.health.kernel.shape import Shape

CORPUS = Path(__file__).parents[3] / "data/health/kernel/formats.toml"
FORMATS: list[dict[str, Any]] = tomllib.loads(CORPUS.read_text())["format"]
GONE = "NVRM: Xid (PCI:0000:0f:00): 79, pid=4711, name=python, GPU has fallen off the bus."
QUIET = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05"


def lines(text: str) -> list[LogLine]:
    return list(read(text.encode()))


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form["name"])
def test_a_format(form: dict[str, Any]) -> None:
    (line,) = lines(form["line"].replace("{}", GONE))
    assert line.text == GONE
    assert line.is_kernel is form["kernel"]
    assert line.host == form.get("host", "")
    at_s = form.get("at_s")
    if "local" in form:
        at_s = time.mktime(time.strptime(form["local"], "%Y-%m-%d %H:%M:%S"))
    assert line.at_s == (pytest.approx(at_s, abs=1e-5) if at_s is not None else None)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form["name"])
def test_a_log_of_one_format(form: dict[str, Any]) -> None:
    text = "\n".join(form["line"].replace("{}", QUIET if number % 2 else GONE) for number in range(6))
    (event,) = events(read(text.encode()))
    assert (event.source, event.code, event.device, event.count) == ("xid", 79, "0000:0f:00", 3)
    assert event.trusted is form["kernel"]
    assert event.line == 1


def test_all_formats_in_one_paste() -> None:
    text = "\n\n".join(form["line"].replace("{}", GONE) for form in FORMATS if form["line"] != "{}")
    found: collections.Counter[bool] = collections.Counter()
    for event in events(read(text.encode())):
        found[event.trusted] += event.count
    kernel = [form["kernel"] for form in FORMATS if form["line"] != "{}"]
    assert found == {True: kernel.count(True), False: kernel.count(False)}


def test_a_files_name_is_no_repeated_line() -> None:
    said = f"message repeated 3 times: [ {GONE}]: a: potentially unexpected fatal signal 11."
    assert events(read(f"Jun  1 12:00:00 n1 kernel: {said}\n".encode())) == []
    assert [line.text for line in lines(f"[   12.345678] message repeated 3 times: [ {GONE}]")] != [GONE]


def test_lines_are_numbered_as_in_the_file() -> None:
    text = f"\n\n[    1.000000] {QUIET}\r\n\n[    2.000000] {GONE}\n"
    assert [(line.number, line.text) for line in lines(text)] == [(3, QUIET), (5, GONE)]


def test_more_of_a_record_of_kmsg_is_no_line() -> None:
    text = f"3,1,2,-;{GONE}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:0f:00.0\n6,2,3,-;quiet\n"
    assert [line.text for line in lines(text)] == [GONE, "quiet"]


def test_kmsg_escapes() -> None:
    assert lines("6,1,2,-;a\\x0ab\\x5cc")[0].text == "a\nb\\c"


def journal(**fields: object) -> str:
    return json.dumps({"_TRANSPORT": "kernel", **fields})


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (GONE, GONE),
        (list(GONE.encode()), GONE),
        (list(b"a\xff\x00b"), "a\ufffd\x00b"),
        ([GONE, "other"], GONE),
        (None, ""),
        ([], ""),
        ([1000], ""),
        ({"a": 1}, ""),
        (12, ""),
    ],
)
def test_what_a_message_of_the_journal_can_be(message: object, text: str) -> None:
    assert lines(journal(MESSAGE=message))[0].text == text


def test_json_that_is_no_record_is_no_line_of_the_kernel() -> None:
    text = f'{{"MESSAGE": "{GONE}"\n{{"a": 1}}\n{{"a": {"[" * 100_000}\n{{]}}\n{{"n": {"9" * 5000}}}'
    assert not any(line.is_kernel for line in lines(text))


def test_an_exported_message_of_several_lines() -> None:
    raw = b"__CURSOR=1\n_TRANSPORT=kernel\nMESSAGE\n" + (81).to_bytes(8, "little") + GONE.encode() + b"\n_PID=1\n\n"
    assert [(line.text, line.is_kernel) for line in read(raw, Shape.LOG)] == [(GONE, True)]


def test_a_user_cannot_forge_a_transport() -> None:
    record = '{"_TRANSPORT":"syslog","MESSAGE":"x","MESSAGE_":"\\",\\"_TRANSPORT\\":\\"kernel"}'
    assert not lines(record)[0].is_kernel


@pytest.mark.parametrize(
    "text",
    [
        f"epoch 1 loss 2.0\nepoch 2 loss 1.9\n{GONE}\nepoch 3 loss 1.8\n",
        f"epoch 1 loss 2.0\nepoch 2 loss 1.9\n[   12.345678] {GONE}\nepoch 3 loss 1.8\n",
        f"rank 0: starting\nrank 1: starting\nJun  1 12:00:00 n1 kernel: {GONE}\nrank 0: stopping\n",
        f"PATH=/usr/bin\nHOME=/home/alice\n[   12.345678] {GONE}\nLANG=C\n",
        f"Traceback (most recent call last):\n{GONE}\n",
    ],
)
def test_a_line_within_a_programs_output_is_not_trusted(text: str) -> None:
    (event,) = events(read(text.encode()))
    assert not event.trusted


@pytest.mark.parametrize(
    "text",
    [
        GONE,
        f"{GONE}\n\n{QUIET}\nnvidia 0000:0f:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer\n",
        f"root@gpu-017:~# dmesg -t | grep NVRM\n{GONE}\n",
        f"```\n{GONE}\n```\n",
        f"$ dmesg | tail\n[   12.345678] {GONE}\n",
        f"the job died, see:\n[   11.345678] {QUIET}\n[   12.345678] {GONE}\n",
        f"-- Boot 0123456789abcdef --\nJun 01 12:00:00 gpu-017 kernel: {GONE}\n",
    ],
)
def test_an_excerpt_is_the_kernels(text: str) -> None:
    assert [event.trusted for event in events(read(text.encode())) if event.code == 79] == [True]


def test_of_a_long_line_only_the_beginning_counts() -> None:
    late = b"[    1.000000] " + b"a" * MAX_LINE_BYTES + GONE.encode() + b"\n"
    early = b"[    1.000000] " + GONE.encode() + b" " + b"a" * (MAX_LINE_BYTES * 2) + b"\n"
    assert [event.line for event in events(read(late + early))] == [2]
