# SPDX-License-Identifier: Apache-2.0
"""A secret that is known is found in whatever form programs write it, with the fingerprint that it has everywhere."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from stepguard.archive.redaction import Redactor, load_rules
from stepguard.archive.redaction.known import literals
from stepguard.archive.redaction.spans import marker

KEY = bytes(range(32))
REDACTOR = Redactor(KEY, load_rules(None, ()))
SECRET = "it's a se\"cret$9 \\ é"
KNOWN = REDACTOR.secrets({"X_PASSWORD": SECRET})
MARK = marker(KEY, SECRET.encode())


def shell(program: str, script: str) -> bytes:
    environment = {"PATH": "/usr/bin:/bin", "X": SECRET, "LC_ALL": "C.UTF-8"}
    done = subprocess.run([program, "-c", script], env=environment, capture_output=True, check=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("program", "script"),
    [
        ("bash", 'set -x; : "$X"'),
        ("bash", 'printf "user:%s" "$X" | base64 -w0'),
        ("dash", 'set -x; : "$X"'),
        ("bash", "declare -x"),
        ("dash", "export -p"),
        ("bash", 'printf "%q\\n" "$X"'),
        ("bash", 'echo "${X@Q}"'),
        ("sh", 'printf %s "$X" | base64 -w0'),
        ("sh", 'echo "$X" | base64 -w0'),
    ],
)
def test_as_shells_write_it(program: str, script: str) -> None:
    written = shell(program, script)
    redacted, count = REDACTOR.text(written, KNOWN)
    assert count == 1, written
    assert MARK in redacted
    assert b"cret" not in redacted


@pytest.mark.parametrize(
    "written",
    [
        repr(SECRET),
        repr(SECRET.encode()),
        repr({"value": SECRET}),
        json.dumps({"value": SECRET}),
        json.dumps({"value": SECRET}, ensure_ascii=False),
        "https://x/?q=" + quote(SECRET),
        "https://x/?q=" + quote(SECRET, safe=""),
        "https://x/?q=" + quote_plus(SECRET),
        "train --x " + shlex.quote(SECRET),
        "<" + base64.b64encode(SECRET.encode()).decode() + ">",
        "<" + base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("=") + ">",
        "<" + base64.b64encode(SECRET.encode() + b"\r\n").decode() + ">",
    ],
)
def test_as_programs_write_it(written: str) -> None:
    redacted, count = REDACTOR.text(f"- {written} -".encode(), KNOWN)
    assert count == 1
    assert MARK in redacted
    assert redacted.endswith(written[-1:].encode() + b" -") or written[-1:].isalnum() or written[-1:] == "="


@pytest.mark.parametrize("size", range(8, 40))
def test_base64_of_any_length_goes_as_a_whole(size: int) -> None:
    secret = ("0-aZ_9" * 10)[:size]
    known = REDACTOR.secrets({"X_PASSWORD": secret})
    assert len(known) == 1
    for end in ("", "\n"):
        text = b"<%s>" % base64.b64encode((secret + end).encode())
        assert REDACTOR.text(text, known) == (b"<%s>" % marker(KEY, secret.encode()), 1)


@pytest.mark.parametrize("size", range(8, 14))
@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "user:", "robot:", "trainer:"])
@pytest.mark.parametrize("after", ["", "\n", ":more of it"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_of_text_with_a_secret_in_it(
    size: int, before: str, after: str, encode: Callable[[bytes], bytes]
) -> None:
    secret = ("0-?Z>~" * 10)[:size]
    encoded = encode((before + secret + after).encode()).rstrip(b"=")
    redacted, count = REDACTOR.text(b"<%s>" % encoded, REDACTOR.secrets({"X_PASSWORD": secret}))
    assert count == 1
    assert marker(KEY, secret.encode()) in redacted
    # Each character has six bits.
    own = encoded[-(-len(before) * 8 // 6) : (len(before) + size) * 8 // 6]
    assert not any(own[at : at + 4] in redacted for at in range(len(own) - 3))
    assert redacted.startswith(b"<" + encoded[: len(before) * 8 // 6])


@pytest.mark.parametrize(
    ("script", "output", "secret"),
    [
        ("DB_PASSWORD='hunter2plain!'; set -x; echo $DB_PASSWORD", "+ echo 'hunter2plain!'", "hunter2plain!"),
        ("DB_PASSWORD='hunter2plain!'; set -x; echo $DB_PASSWORD", "hunter2plain!", "hunter2plain!"),
        ("export X_PASSWORD='it'\\''s secret 9'", "it's secret 9", "it's secret 9"),
        ("export X_PASSWORD='it'\\''s secret 9'", "+ echo 'it'\\''s secret 9'", "it's secret 9"),
        ('export X_PASSWORD="a\\$b\\"c123"', 'a$b"c123', 'a$b"c123'),
        ("train --password 12ab34cd56", "got 12ab34cd56", "12ab34cd56"),
        ("mysql -u me -p12ab34cd56 runs", "got 12ab34cd56", "12ab34cd56"),
        ("git clone https://me:12ab%2F34cd@x/y", "got 12ab/34cd", "12ab/34cd"),
    ],
)
def test_what_only_the_script_says_is_known_for_the_output(script: str, output: str, secret: str) -> None:
    known = REDACTOR.secrets({}, script.encode())
    redacted, count = REDACTOR.text(output.encode(), known)
    assert count == 1
    assert marker(KEY, secret.encode()) in redacted
    in_script, _ = REDACTOR.text(script.encode(), known, commands=True)
    assert marker(KEY, secret.encode()) in in_script


@pytest.mark.parametrize("script", ["X_PASSWORD=short1", "X_PASSWORD=$(pass show x)", "X_PASSWORD=checkpoint", ""])
def test_what_is_common_or_elsewhere_is_not_known_from_a_script(script: str) -> None:
    assert REDACTOR.secrets({}, script.encode()) == ()


@pytest.mark.parametrize("script", ["declare -x", 'echo "${X@Q}"', 'printf "%q" "$X"', 'set -x; : "$X"'])
def test_control_characters_as_bash_writes_them(script: str) -> None:
    secret = "tab\there 'n \\ \x07\x0b\x01\x7f \x1b[0m line\n2nd-1"
    environment = {"PATH": "/usr/bin:/bin", "X": secret, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, check=True)
    redacted, _ = REDACTOR.text(done.stdout + done.stderr, REDACTOR.secrets({"X_PASSWORD": secret}))
    assert marker(KEY, secret.encode()) in redacted
    assert b"here" not in redacted


def test_a_plain_word_after_a_flag_is_its_value_on_command_lines() -> None:
    text = b"train --password swordfish run"
    assert REDACTOR.text(text) == (text, 0)
    redacted = b"train --password %s run" % marker(KEY, b"swordfish")
    assert REDACTOR.text(text, commands=True) == (redacted, 1)
    assert REDACTOR.words(text.decode().split()) == redacted.decode().split()


def test_how_much_is_looked_for_is_bounded() -> None:
    many = tuple(b"%04d 'a\"b$c" % number for number in range(500))
    assert len(literals(many)) < 2050
    assert {literal.text for literal in literals(many)} >= set(many)
