# SPDX-License-Identifier: Apache-2.0
"""No text makes it raise, take long, or trust what it should not."""

from __future__ import annotations

import random
import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepguard.health.explain import explain
from stepguard.health.explain.document import document
from stepguard.health.kernel import LogLine, recognize
from stepguard.health.kernel.formats import parse
from stepguard.health.model import Status

DATA = Path(__file__).parents[3] / "data/health/kernel"
TEXTS = [case["text"] for case in tomllib.loads((DATA / "lines.toml").read_text())["case"]]
FORMATS = [form["line"] for form in tomllib.loads((DATA / "formats.toml").read_text())["format"]]
# Generous: the machine may do other things. What is quadratic takes minutes.
LIMIT_S = 20.0
LINE_CHARS = 1 << 16


def seconds(content: bytes) -> float:
    start = time.process_time()
    document([("f", explain(content))])
    return time.process_time() - start


@pytest.mark.parametrize(
    "piece",
    [
        b"\x00", b"\xff", b"\n", b" ", b"\r\n", b"{", b"[", b"<", b"{}\n", b"[[", b"<a>", b"a", b"0", b"0,", b"[1",
        b"((", b"&a;", b"NVRM: ", b"NVRM: Xid (", b"NVRM: Xid (PCI:", b"Xid (PCI:0000:0f:00): 13, ",
        b"Xid (PCI:0000:0f:00): 1, 1", b"SXid (PCI:0000:0f:00): 1, ", b"AER: ", b"EDAC MC0: 1 CE ",
        b"oom-kill:constraint=", b",task_memcg=", b"Lustre: ", b"LustreError: ", b"nvme nvme0: I/O ",
        b"mlx5_core 0000:a1:00.0 ", b"Link ", b"link is ", b"INFO: task ", b"Port module event", b"neuron:",
        b"efa 0000:00:06.0: ", b"<3>1 ", b"<3>1 a b c - - [", b'<3>1 a b c d e [a "', b'<3>1 a b c d e ["\\',
        b"Jun  1 12:00:00 ", b"2026-06-01T12:00:00Z ", b"kern  :err   : ", b"data: {", b'{"MESSAGE":[', b"__CURSOR=",
        b"__CURSOR=\n", b"MESSAGE=a\n", b"{\n", b"{\n\t", b"a: ", b"a:1: ", b"[    1.000000] ", b"[    1.000000]\n",
        b"GPU at PCI:", b"\xe2\x80\xae", b"\\x41", b"6,1,2,-;\\x", b"/job_1/", b"BUG: ", b"- ",
        b"recovery action changed from ", b"145, RLW_REMAP Fatal XC0 i0 Link 0 (0x1 ",
    ],
    ids=lambda piece: repr(piece)[:40],
)  # fmt: skip
def test_repetition(piece: bytes) -> None:
    start = b"[    1.000000] NVRM: "
    for content in (piece * ((1 << 17) // len(piece)), start + piece * ((1 << 17) // len(piece))):
        assert seconds(content) < LIMIT_S


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:40])
def test_a_line_grows_in_the_middle(text: str) -> None:
    """Each place where a line may grow: the pattern behind it must not look at the rest again and again."""
    start = time.process_time()
    for at in range(0, len(text), max(1, len(text) // 12)):
        for filler in (text[at : at + 1] or "a", text[at : at + 8] or "a", " a", "(", ": "):
            grown = text[:at] + (filler * LINE_CHARS)[:LINE_CHARS] + text[at:]
            recognize(LogLine(1, None, "", "kernel", grown, True))
    assert time.process_time() - start < LIMIT_S


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form[:40])
def test_a_prefix_grows_in_the_middle(form: str) -> None:
    start = time.process_time()
    for at in range(0, len(form), max(1, len(form) // 12)):
        for filler in (form[at : at + 1] or "a", "a", " ", "[", '"'):
            parse(1, form[:at] + (filler * LINE_CHARS)[:LINE_CHARS] + form[at:])
    assert time.process_time() - start < LIMIT_S


def test_many_lines_are_all_counted() -> None:
    """A million take 20 s of one core."""
    line = b"3,%d,%d,-;NVRM: Xid (PCI:0000:%02x:00): 13, pid=%d, name=a\n"
    content = b"".join(line % (n, n * 100_000, n % 8, n) for n in range(100_000))
    assert seconds(content) < LIMIT_S
    one = explain(content)
    assert sum(event.count for event in one.judgement.events) == 100_000
    assert one.judgement.status is Status.FAIL


def test_many_different_events_take_bounded_memory() -> None:
    content = b"".join(b"[    1.000000] EXT4-fs error (device d%d): x\n" % n for n in range(50_000))
    one = explain(content)
    assert len(one.judgement.events) == 10_000
    assert one.judgement.reason == "more different events than are kept"


def test_random_bytes() -> None:
    assert seconds(random.Random(1).randbytes(4 << 20)) < LIMIT_S


PIECES = st.sampled_from(
    [
        *TEXTS,
        *FORMATS,
        "\n",
        " ",
        ": ",
        "kernel: ",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ",",
        "0",
        "-1",
        "\x00",
        "\ufffd",
        "٣",
        "ß",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(PIECES, st.text(max_size=20)), max_size=30).map("".join))
def test_any_mixture_has_an_answer(text: str) -> None:
    one = explain(text.encode(errors="surrogatepass"))
    assert one.judgement.status in Status
    assert all(event.count >= 1 and event.line >= 1 for event in one.judgement.events)
    document([("f", one)])


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_have_an_answer(content: bytes) -> None:
    assert explain(content).judgement.status in Status


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(TEXTS), st.text(st.characters(exclude_characters="\n\r"), max_size=40), st.integers(0, 200))
def test_a_changed_line_makes_no_trusted_event_of_a_users_line(text: str, inserted: str, at: int) -> None:
    changed = text[:at] + inserted + text[at:]
    one = explain(f"Jun  1 12:00:00 n1 alice[4711]: {changed}".encode(errors="surrogatepass"))
    assert not any(event.trusted for event in one.judgement.events)
