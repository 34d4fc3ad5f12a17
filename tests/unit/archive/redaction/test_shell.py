# SPDX-License-Identifier: Apache-2.0
"""A word means what bash makes of it, so that a secret has one mark in script, environment and output."""

from __future__ import annotations

import random
import subprocess

import pytest

from stepguard.archive.redaction import Redactor, load_rules
from stepguard.archive.redaction.shell import Syntax, Words
from stepguard.archive.redaction.spans import marker

KEY = bytes(range(32))
REDACTOR = Redactor(KEY, load_rules(None, ()))


def bash(script: bytes) -> bytes:
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, check=False, timeout=60)
    return done.stdout + done.stderr


def value(word: bytes) -> bytes | None:
    read = Words(word, Syntax.SCRIPT).word(0, len(word))
    assert read is not None
    return read.value


PIECES = [
    b"abc", b"9-x", b"'it is'", b"'a\\b'", b'"two words"', b'"a\\$b\\"c\\\\d\\`e\\n"', b'"it\'s"', b"\\&", b"\\ ",
    b"\\;", b"$'x\\ny'", b"$'\\'q\\\"\\x41\\101\\u00e9\\U0001F600\\t\\e\\cA\\?'", b'$"loc"', b"''", b"a=b",
    b"@%+:./!^~x", "é".encode(), b'"$"',
]  # fmt: skip
ALONE = [
    b"${X:-abc}", b'"${X:-abc def}"', b"${X:-'a b'}", b'"${X:-"a b"}"', b"${X:=$'a\\nb'}", b'"${X-a\'b}c\'\\}}"',
    b"${X:-a\\}b}", b"${X:-${Y:-deep}}", b'"${X:-${Y:-deep}}"', b"${X:-}", b'"line\\\nline"x', b"'first\nsecond'x",
]  # fmt: skip


def test_a_word_of_any_pieces_has_the_value_that_bash_gives_it() -> None:
    dice = random.Random(1)
    words = [*ALONE, *PIECES, *(b"".join(dice.choices(PIECES, k=dice.randrange(2, 6))) for _ in range(500))]
    words = [b"x" + word if word.startswith((b"\\", b"~")) else word for word in words]
    script = b"".join(b"V=%s; printf '%%s\\0' \"$V\"; unset V X Y\n" % word for word in words)
    expected = bash(script).split(b"\0")[:-1]
    assert len(expected) == len(words)
    for word, given in zip(words, expected, strict=True):
        assert value(word) == given, word


@pytest.mark.parametrize(
    "word",
    [b"$X", b'"${X}"', b"a$X-b", b'"a$(cat "x y")b"', b"`cat x`", b"a${X:-b}c", b"${X%%.*}", b"$'a'$X", b"$((1 + 2))"],
)
def test_a_word_with_a_substitution_has_no_known_value(word: bytes) -> None:
    assert value(word) is None
    read = Words(word, Syntax.SCRIPT).word(0, len(word))
    assert read is not None
    assert read.end == len(word) - word.endswith(b'"')


@pytest.mark.parametrize("word", [b"'abc", b'"abc', b"$'abc\\'", b"${X:-abc", b'"${X:-abc"', b'"$(abc"', b"'a'" * 100])
def test_a_word_that_does_not_end_is_not_read(word: bytes) -> None:
    assert Words(word + b" x\n", Syntax.SCRIPT).word(0, len(word) + 3) is None


@pytest.mark.parametrize(
    ("script", "secret"),
    [
        (b"export X_SECRET=$'alpha-88x1\\nbeta-77y2'; echo \"$X_SECRET\"; declare -x", b"alpha-88x1\nbeta-77y2"),
        (b'export X_PASSWORD=Tr0ub4dor\\&3xx; set -x; echo "$X_PASSWORD"', b"Tr0ub4dor&3xx"),
        (b"""X_TOKEN="abc"'DEF-9912'"ghi-77"; echo $X_TOKEN""", b"abcDEF-9912ghi-77"),
        (b'export WANDB_API_KEY="${WANDB_API_KEY:-deadbeefcafe0123}"; echo $WANDB_API_KEY', b"deadbeefcafe0123"),
        (b': "${DB_PASSWORD:=hunter2plain!}"; echo "$DB_PASSWORD"', b"hunter2plain!"),
        (b"X_TOKEN=x; echo ${X_TOKEN:+hunter2plain!}", b"hunter2plain!"),
        (b"X_TOKEN=x; echo ${X_TOKEN+hunter2\\&plain!}", b"hunter2&plain!"),
        (b"DB_PASSWORD=abcd1234;echo $DB_PASSWORD", b"abcd1234"),
        (b"DB_PASSWORD=abcd1234&&echo $DB_PASSWORD", b"abcd1234"),
        (b'export "X_PASSWORD=two \\"9\\" words"; set -x; echo "$X_PASSWORD"', b'two "9" words'),
        (b"X_PASSWORD=two\\ words\\ 12; env X=\"$X_PASSWORD\"", b"two words 12"),
        (b"read -r DB_PASSWORD <<H\nHereDocSecret-4471\nH\necho $DB_PASSWORD", b"HereDocSecret-4471"),
        (b"read -r DB_PASSWORD <<H\nHere\\$4471-x\nH\necho $DB_PASSWORD", b"Here$4471-x"),
        (b"read -r DB_PASSWORD <<'H'\nHere\\$4471-x\nH\necho $DB_PASSWORD", b"Here\\$4471-x"),
        (b"read -r DB_USER DB_PASSWORD <<< 'me Here-4471x'; echo $DB_PASSWORD", b"Here-4471x"),
        (b'read -rs DB_PASSWORD <<< "Here\\$4471x"; echo $DB_PASSWORD', b"Here$4471x"),
        (b'DB_PASSWORD=$(cat <<-H\n\tHere-4471 x\n\tH\n); echo "$DB_PASSWORD"', b"Here-4471 x"),
        (b"f() { echo \"$2\"; }; f --password a\\&b1c2d3e4", b"a&b1c2d3e4"),
        (b"sshpass() { echo \"$2\"; }; sshpass -p $'it\\'s 9xy-1' x", b"it's 9xy-1"),
        (b"docker() { echo \"$5\"; }; docker login -u me -p \"abc\"'DEF-9912' x", b"abcDEF-9912"),
    ],
)  # fmt: skip
def test_what_a_script_prints_of_its_secrets_has_their_mark(script: bytes, secret: bytes) -> None:
    output = bash(script)
    assert secret in output
    known = REDACTOR.secrets({}, script)
    redacted, _ = REDACTOR.text(output, known)
    in_script, _ = REDACTOR.text(script, known, commands=True)
    assert marker(KEY, secret) in redacted
    assert marker(KEY, secret) in in_script
    assert not any(line in redacted or line in in_script for line in (secret, *secret.splitlines()))


def test_of_a_word_with_a_substitution_the_parts_that_look_secret_are_known() -> None:
    known = REDACTOR.secrets({}, b'A=1; DB_PASSWORD="job-9Xk2f8Qz$A"; echo $DB_PASSWORD')
    redacted, count = REDACTOR.text(b"job-9Xk2f8Qz1", known)
    assert (redacted, count) == (marker(KEY, b"job-9Xk2f8Qz") + b"1", 1)


@pytest.mark.parametrize(
    "script",
    [
        b"read -r P <<H\nHereDocSecret-4471\nH\n",
        b"read -r DB_PASSWORD <<H\n" + b"x\n" * 4096 + b"HereDocSecret-4471\nH\n",
        b"cat <<H\nHereDocSecret-4471\nH\n",
        b"X_TOKEN=$(make-it HereDocSecret-4471)\n",
    ],
)
def test_what_no_name_tells_is_not_known(script: bytes) -> None:
    assert b"HereDocSecret-4471" not in REDACTOR.secrets({}, script)


def test_a_sign_that_ends_a_shells_word_ends_no_value_in_a_file_of_another_form() -> None:
    script = b"cat > .env <<END\nDB_PASSWORD=ab12;cd34&ef56\nEND\n"
    redacted, _ = REDACTOR.text(script, commands=True)
    assert redacted == b"cat > .env <<END\nDB_PASSWORD=%s\nEND\n" % marker(KEY, b"ab12")
    assert REDACTOR.text(b"got ab12;cd34&ef56", REDACTOR.secrets({}, script))[1] == 1
