# SPDX-License-Identifier: Apache-2.0
"""What is stored of a job's files: whole or cut, without its secrets, and with what was kept of them."""

from __future__ import annotations

import json

import pytest
import zstandard

from stepguard.archive import contents
from stepguard.archive.contents import Content
from stepguard.archive.redaction import Redactor, load_rules
from unit.archive.spools import environment

REDACTOR = Redactor(b"k" * 32, load_rules(None, ()))
SECRET = "hf_QrStUvWxYzAbCdEfGhIjKlMnOpQrStUvWx"


def text_of(content: Content) -> bytes:
    assert content.stored is not None
    return zstandard.ZstdDecompressor().decompress(content.stored)


def cut(head: bytes, tail: bytes, size_bytes: int) -> Content:
    meta = {"what": "regular", "size_bytes": size_bytes, "head_bytes": len(head), "tail_bytes": len(tail)}
    return contents.output("stdout", head + tail, meta, REDACTOR, ())


def test_an_output_that_is_there_as_a_whole_is_kept_byte_for_byte() -> None:
    output = b"caf\xe9 \xff\0\x1b[31m\r\nno end of line"
    meta = {"source": "/o", "what": "regular", "size_bytes": len(output), "head_bytes": len(output), "tail_bytes": 0}
    found = contents.output("stdout", output, meta, REDACTOR, ())
    assert text_of(found) == output
    kept = found.kept
    assert (kept.name, kept.source, kept.head_bytes, kept.why) == ("stdout.zst", "/o", len(output), "")
    assert kept.stored_bytes == len(found.stored or b"")


def test_a_cut_output_says_how_much_is_left_out_and_is_cut_between_lines() -> None:
    found = cut(b"one\ntwo\nthr", b"ee hundred\nlast\n", 1000)
    assert text_of(found) == b"one\ntwo\n[stepguard: 987 bytes left out]\nlast\n"
    assert (found.kept.size_bytes, found.kept.head_bytes, found.kept.tail_bytes) == (1000, 8, 5)
    assert "987 bytes" in found.kept.why


def test_an_output_of_one_endless_line_is_cut_within_it() -> None:
    found = cut(b"x" * 5000, b"y" * 6000, 20000)
    assert text_of(found) == b"x" * 5000 + b"\n[stepguard: 9000 bytes left out]\n" + b"y" * 6000


def test_half_a_secret_at_the_cut_is_not_kept() -> None:
    half = SECRET[:20].encode(), SECRET[20:].encode()
    found = contents.output(
        "stdout",
        half[0] + half[1] + b" x",
        {"size_bytes": 1000, "head_bytes": len(half[0]), "tail_bytes": len(half[1]) + 2},
        REDACTOR,
        (SECRET.encode(),),
    )
    assert half[0] not in text_of(found)
    assert half[1] not in text_of(found)


@pytest.mark.parametrize("what", ["fifo", "device", "link", "absent", "unreadable"])
def test_what_was_not_read_is_recorded_for_what_it_is(what: str) -> None:
    found = contents.output("stderr", None, {"source": "/o", "what": what, "why": "so"}, REDACTOR, ())
    assert (found.stored, found.kept.name, found.kept.what, found.kept.why) == (None, "", what, "so")


@pytest.mark.parametrize(("what", "size_bytes"), [("absent", None), ("link", None), ("fifo", None), ("unreadable", 11)])
def test_the_size_of_another_thing_is_not_the_outputs(what: str, size_bytes: int | None) -> None:
    found = contents.output("stdout", None, {"source": "/o", "what": what, "size_bytes": 11}, REDACTOR, ())
    assert found.kept.size_bytes == size_bytes


def test_a_script_that_was_cut_says_so() -> None:
    found = contents.script({"script": b"#!/bin/sh\n", "script_size": b"99"}, REDACTOR, ())
    assert (found.stored, found.kept.size_bytes, found.kept.head_bytes) == (b"#!/bin/sh\n", 99, 10)
    assert found.kept.why == "10 of its 99 bytes are kept"
    assert contents.script({"script_size": b"0"}, REDACTOR, ()).kept.why


def test_what_a_full_spool_had_no_room_for_says_so() -> None:
    fields = {"script_size": b"300", "environment_size": b"20", "dropped": b"script environment", "facts": b"HOME=/h\0"}
    for content in (contents.script(fields, REDACTOR, ()), contents.environment(fields, REDACTOR)):
        assert (content.stored, content.kept.why) == (None, "the spool had no room for it")


def test_an_environment_is_lossless_and_without_secrets() -> None:
    given = {"PATH": "/bin", "ODD": "a=b\n\udcff\u00e9", "EMPTY": "", "HF_TOKEN": SECRET}
    found = contents.environment({"environment": environment(given)}, REDACTOR)
    assert found.stored is not None
    values = json.loads(found.stored)
    assert values["HF_TOKEN"].startswith("[redacted:")
    assert {**values, "HF_TOKEN": SECRET} == given
    assert found.kept.redacted == 1


def test_of_a_journal_only_json_objects_are_kept() -> None:
    lines = [b'{"event":"start","step_key":"a","restart_count":0}', b"[1]", b"x\xff", b"[" * 5000, b'{"n":"%s"}']
    journal = b"\n".join(lines) % SECRET.encode()
    meta = {"size_bytes": len(journal), "head_bytes": len(journal), "tail_bytes": 0}
    found, events = contents.resumes(journal, meta, REDACTOR, ())
    assert [sorted(event) for event in events] == [["event", "restart_count", "step_key"], ["n"]]
    assert found.stored is not None
    assert found.stored.count(b"\n") == 2
    assert SECRET.encode() not in found.stored
    assert found.kept.why == "3 lines that are no JSON objects are left out"


def test_a_journal_that_is_too_long_is_not_ours() -> None:
    found, events = contents.resumes(b"{}\n", {"size_bytes": 2 << 20}, REDACTOR, ())
    assert (found.stored, events) == (None, [])
    assert "not ours" in found.kept.why


def test_resumes_are_the_starts_after_the_first_of_each_step() -> None:
    journal = [("a", 0), ("a", 0), ("b", 0), ("a", 0), ("a", 1), ("a", 1)]
    events = [{"event": "start", "step_key": key, "restart_count": count} for key, count in journal]
    assert contents.count_resumes([*events, {"event": "end"}], 0) == 2
    assert contents.count_resumes(events, 1) == 1
    assert contents.count_resumes([], 0) == 0
