# SPDX-License-Identifier: Apache-2.0
"""One secret has one fingerprint, is found wherever it stands, and all else stays byte for byte."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepguard.archive.redaction import Redactor, load_rules
from unit.archive.redaction.corpus import secrets

KEY = bytes(range(32))
RULES = load_rules(None, ())
REDACTOR = Redactor(KEY, RULES)
PASSWORD = "Tr4in-er+Pass/word"
SECRETS = secrets()


def prefix(secret: str) -> str:
    return hmac.new(KEY, secret.encode(), hashlib.sha256).hexdigest()[:12]


@pytest.mark.parametrize(
    "text",
    [
        f"export DB_PASSWORD={PASSWORD}",
        f"+ export DB_PASSWORD='{PASSWORD}'",
        f'{{"password": "{PASSWORD}"}}',
        f"--password {PASSWORD}",
        f"docker login -u me -p {PASSWORD} nvcr.io",
        f"postgresql://me:{quote(PASSWORD, safe='')}@db/runs",
        f"Authorization: Basic {base64.b64encode(f'me:{PASSWORD}'.encode()).decode()}",
        f"curl -u me:{PASSWORD} https://x",
        f"login with {PASSWORD} worked",
    ],
)
def test_a_secret_has_the_same_fingerprint_wherever_it_stands(text: str) -> None:
    environment = {"DB_PASSWORD": PASSWORD}
    assert REDACTOR.environment(environment)[0] == {"DB_PASSWORD": f"[redacted:{prefix(PASSWORD)}]"}
    redacted, count = REDACTOR.text(text.encode(), REDACTOR.secrets(environment))
    assert f"[redacted:{prefix(PASSWORD)}]".encode() in redacted
    assert count == 1


def test_a_private_key_has_the_same_fingerprint_in_a_file_and_in_a_variable() -> None:
    case = next(case for case in SECRETS if case.kind == "multi_line" and case.pieces[0].startswith("-----BEGIN RSA"))
    escaped = '{"private_key": "' + case.text.replace("\n", "\\n") + '"}'
    labelled = "".join(f"+ {line}\n" for line in case.text.splitlines())
    in_variable = REDACTOR.environment({"DEPLOY_KEY": case.text + "\n"})[0]["DEPLOY_KEY"].encode()
    assert re.fullmatch(rb"\[redacted:[0-9a-f]{12}\]", in_variable)
    assert in_variable in REDACTOR.text(case.text.encode())[0]
    assert in_variable in REDACTOR.text(escaped.encode())[0]
    assert case.secrets[0][:40].encode() not in REDACTOR.text(labelled.encode())[0]


def test_another_key_makes_other_fingerprints() -> None:
    other = Redactor(b"another", RULES)
    assert other.text(b"PASSWORD=abc")[0] != REDACTOR.text(b"PASSWORD=abc")[0]


def test_what_a_variable_holds_is_found_literally_everywhere() -> None:
    environment = {"HF_TOKEN": "unlikely-77-token", "OTHER": "see unlikely-77-token!", "URL": "https://me:S3same99@h/x"}
    redacted, count = REDACTOR.environment(environment)
    assert redacted["OTHER"] == f"see {redacted['HF_TOKEN']}!"
    assert count == 3
    text = b"got unlikely-77-token, then S3same99, xunlikely-77-tokenx"
    assert REDACTOR.text(text, REDACTOR.secrets(environment))[1] == 3


@pytest.mark.parametrize("value", ["short1", "password", "checkpoint", "/scratch/u/run7", "12345678", "my-project"])
def test_a_common_value_is_not_looked_for_literally(value: str) -> None:
    assert REDACTOR.secrets({"APP_PASSWORD": value}) == ()
    assert REDACTOR.environment({"APP_PASSWORD": value})[1] == 1


def test_each_line_of_a_secret_with_several_is_looked_for() -> None:
    known = REDACTOR.secrets({"SECRET": "first 1111 line\nend\nsecond 2222 line"})
    assert REDACTOR.text(b"> second 2222 line\n> end", known)[0].endswith(b"]\n> end")


def test_only_so_many_secrets_are_looked_for() -> None:
    pairs = {f"A{number}_TOKEN": f"{number:07d}-abcdefgh" for number in range(2000)}
    assert len(REDACTOR.secrets(pairs)) == 500


@pytest.mark.parametrize("value", ["", "0", "1", "true", "False", "off", "None"])
def test_a_switch_is_no_secret(value: str) -> None:
    assert REDACTOR.environment({"AUTH_TOKEN": value}) == ({"AUTH_TOKEN": value}, 0)


@pytest.mark.parametrize(
    ("words", "hidden"),
    [
        (["train", "--password", "two words 12"], [2]),
        (["train", "--token=ab12cd34ef", "--lr", "1"], [1]),
        (["curl", "-H", "Authorization: Bearer 12ab34cd", "https://x"], [2]),
        (["docker", "login", "-u", "me", "-p", "12ab 34cd", "nvcr.io"], [5]),
        (["bash", "-c", "export API_KEY=12ab34cd\nsrun hostname"], [2]),
        (["train", "--password", "a\x1fb c"], []),
        (["train", "--name", "a  b", "", "--lr", "1"], []),
        ([], []),
    ],
)
def test_a_command_line_is_redacted_word_by_word_and_as_a_whole(words: list[str], hidden: list[int]) -> None:
    redacted = REDACTOR.words(words)
    assert len(redacted) == len(words)
    assert [at for at, word in enumerate(redacted) if word != words[at]] == hidden
    assert not any(part in word for word in redacted for part in ("12", "34cd"))


def test_undecodable_bytes_survive() -> None:
    environment = {"PLAIN": "caf\udce9\udcff", "TOKEN_X": "a\udcffb" * 4}
    redacted, count = REDACTOR.environment(environment)
    assert redacted["PLAIN"] == environment["PLAIN"]
    assert count == 1
    text = b"\x00\xff\xfe PASSWORD=abc\x00NEXT=1\x00\x80"
    marker = f"[redacted:{prefix('abc')}]".encode()
    assert REDACTOR.text(text) == (b"\x00\xff\xfe PASSWORD=" + marker + b"\x00NEXT=1\x00\x80", 1)


@pytest.mark.parametrize("size", range(12, 37, 3))
def test_a_secret_that_a_cut_went_through_is_redacted(size: int) -> None:
    token = next(case.secrets[0] for case in SECRETS if case.text.startswith("GITHUB_TOKEN="))
    head, tail = f"pushed with {token[:size]}".encode(), f"{token[-size:]} was refused".encode()
    assert token[:size].encode() not in REDACTOR.text(head, cut_end=True)[0]
    assert token[-size:].encode() not in REDACTOR.text(tail, cut_start=True)[0]
    assert REDACTOR.text(tail, cut_start=True)[0].endswith(b" was refused")


def test_a_known_secret_that_a_cut_went_through_is_redacted() -> None:
    known = REDACTOR.secrets({"LOGIN_PASSPHRASE": "correct horse battery staple"})
    assert REDACTOR.text(b"it is correct horse batt", known, cut_end=True)[0].startswith(b"it is [redacted:")
    assert REDACTOR.text(b"se battery staple\nok", known, cut_start=True)[0].endswith(b"]\nok")


@pytest.mark.parametrize("text", [b"ion 100 done", b"rch.safetensors saved", b"2.345E+00 loss", b"scratch/u/run7 ok"])
def test_a_cut_through_plain_text_takes_nothing(text: bytes) -> None:
    assert REDACTOR.text(text, cut_start=True) == (text, 0)


def test_a_marker_does_not_shield_what_stands_beside_it() -> None:
    redacted, count = REDACTOR.text(b"PASSWORD=4b-[redacted:0123456789ab]-cd")
    assert count == 2
    assert re.fullmatch(rb"PASSWORD=(\[redacted:[0-9a-f]{12}\]){3}", redacted)


fragments = st.one_of(
    st.sampled_from([case.text.encode() for case in SECRETS]),
    st.sampled_from(
        [b"PASSWORD=", b"'", b'"', b"\\", b"\n", b"\0", b" ", b"$", b"{", b"[redacted:", b"://", b"@", b":"]
    ),
    st.binary(max_size=12),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(fragments, max_size=12).map(b"".join), st.booleans())
def test_redacting_twice_is_redacting_once(text: bytes, cut: bool) -> None:
    redacted, _ = REDACTOR.text(text, (), cut, cut)
    assert REDACTOR.text(redacted, (), cut, cut) == (redacted, 0)


@settings(max_examples=300, deadline=None)
@given(st.lists(fragments, max_size=12).map(b"".join))
def test_all_bytes_outside_of_markers_are_those_of_the_text_in_order(text: bytes) -> None:
    redacted, _ = REDACTOR.text(text)
    pattern = b"[\\s\\S]+?".join(re.escape(part) for part in re.split(rb"\[redacted:[0-9a-f]{12}\]", redacted))
    assert re.fullmatch(pattern, text)


@pytest.mark.parametrize(
    "secret",
    [
        'export DB_PASSWORD="hunter2\nplain\nsecret Zq8"',
        "export DB_PASSWORD='hunter2\r\nplain secret Zq8'",
        "read -rd '' DB_PASSWORD <<END\nfirst Zq81mm2x\nsecond Zq81mm2y\nEND",
        "mysql --password=hunter2Zq8\\\nplain7Xq -h db",
        *(f"cat > key <<'K'\n{case.text}\nK" for case in SECRETS if case.kind == "multi_line"),
    ],
)
def test_lines_of_a_script_keep_their_numbers(secret: str) -> None:
    text = f"#!/bin/sh\n{secret}\nsrun ./train\n"
    redacted, count = REDACTOR.text(text.encode(), commands=True)
    assert count
    assert redacted.count(b"\n") == text.count("\n")
    assert redacted.endswith(b"\nsrun ./train\n")
    assert REDACTOR.text(redacted, commands=True) == (redacted, 0)
