# SPDX-License-Identifier: Apache-2.0
"""No text of a user's steers a terminal."""

from __future__ import annotations

import pytest

from stepguard.escaping import as_bytes, visible, visible_lines


@pytest.mark.parametrize(
    ("text", "shown", "in_ascii"),
    [
        ("train", "train", "train"),
        ("", "", ""),
        ("a b\\c", "a b\\c", "a b\\c"),
        ("a\nb\rc\td", "a\\nb\\rc\\td", "a\\nb\\rc\\td"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07", "\\x1b]0;title\\x07"),
        ("\x7f\x9b31m", "\\x7f\\u009b31m", "\\x7f\\u009b31m"),
        ("abc\u202edef\u2066", "abc\\u202edef\\u2066", "abc\\u202edef\\u2066"),
        ("caf\u00e9 \u6f22", "caf\u00e9 \u6f22", "caf\\u00e9 \\u6f22"),
        ("\udcff\udc80", "\\xff\\x80", "\\xff\\x80"),
        ("\ud800", "\\ud800", "\\ud800"),
        ("\U0001f600\U000e0041", "\U0001f600\\U000e0041", "\\U0001f600\\U000e0041"),
    ],
)
def test_visible(text: str, shown: str, in_ascii: str) -> None:
    assert visible(text) == shown
    assert visible(text, utf8=False) == in_ascii


def test_every_character_is_printable_afterwards() -> None:
    everything = "".join(map(chr, range(0x30000)))
    assert visible(everything).isprintable()
    assert visible(everything, utf8=False).isascii()


def test_lines_and_tabs_of_a_text_stay() -> None:
    assert visible_lines(b"a\tb\r\n\x1b[1mc\xff\n") == "a\tb\\r\n\\x1b[1mc\\xff\n"


def test_bytes_come_back() -> None:
    assert as_bytes(b"\xff\xc3\xa9".decode(errors="surrogateescape")) == b"\xff\xc3\xa9"
    assert as_bytes("\ud800") == b"\\ud800"
