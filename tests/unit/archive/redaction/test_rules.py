# SPDX-License-Identifier: Apache-2.0
"""A site's rules are added, stepguard's are switched off, and what is wrong is refused with where and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepguard.archive.redaction import Redactor, load_rules
from stepguard.errors import ConfigError

KEY = b"k" * 32
SITE = r"""
[[variable]]
name = "site-pin"
words = ["BADGE PIN"]
source = "our wiki"

[[harmless]]
name = "site-harmless"
names = ["DEMO_PASSWORD"]
source = "our wiki"

[[token]]
name = "site-token"
starts = ["acme.", "acme_"]
pattern = 'acme[._]v\d[0-9a-f]{20}'
source = "our wiki"

[[context]]
name = "site-context"
starts = ["unlock "]
pattern = 'unlock (\w+)'
source = "our wiki"
"""


def site_file(directory: Path, text: str) -> Path:
    path = directory / "site.toml"
    path.write_text(text)
    return path


def test_each_rule_has_a_name_of_its_own_and_a_source() -> None:
    rules = load_rules(None, ())
    assert len(set(rules.names())) == len(rules.names()) > 80
    sources = [[rule.source for rule in kind] for kind in (rules.variable, rules.harmless)]
    sources += [[rule.source for rule in kind] for kind in (rules.token, rules.context)]
    assert all(all(kind) and kind for kind in sources)


def test_a_site_adds_rules_of_each_kind(tmp_path: Path) -> None:
    redactor = Redactor(KEY, load_rules(site_file(tmp_path, SITE), ()))
    text = b"BADGE_PIN=8472 acme.v1" + b"0af3" * 5 + b" acme_v2" + b"0af3" * 5 + b"\nunlock sesame"
    redacted, count = redactor.text(text)
    assert count == 4
    assert not any(part in redacted for part in (b"8472", b"0af3", b"sesame"))
    assert redactor.environment({"BADGE_PIN": "8472", "DEMO_PASSWORD": "demo"})[0]["DEMO_PASSWORD"] == "demo"


def test_a_rule_is_switched_off_by_its_name(tmp_path: Path) -> None:
    text = b"munge " + b"hf_" + b"aB3dE6gH9j" * 3 + b"kLmN"
    assert Redactor(KEY, load_rules(None, ())).text(text)[1] == 1
    assert Redactor(KEY, load_rules(None, ("hugging-face",))).text(text) == (text, 0)
    off = Redactor(KEY, load_rules(site_file(tmp_path, SITE), ("site-context",)))
    assert off.text(b"unlock sesame") == (b"unlock sesame", 0)


def test_all_rules_may_be_switched_off() -> None:
    rules = load_rules(None, load_rules(None, ()).names())
    assert rules.names() == []
    assert Redactor(KEY, rules).text(b"PASSWORD=abc") == (b"PASSWORD=abc", 0)
    assert Redactor(KEY, rules).environment({"PASSWORD": "abc"}) == ({"PASSWORD": "abc"}, 0)


def test_a_site_replaces_a_rule_that_it_switches_off(tmp_path: Path) -> None:
    path = site_file(tmp_path, SITE.replace("site-pin", "password"))
    with pytest.raises(ConfigError, match="'password' stands twice"):
        load_rules(path, ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[tokens]]\nname='a'", ["unknown kind of rule 'tokens'", "known: variable, harmless, token, context"]),
        ("[token]\nname='a'", ["'token' is no list of rules", "[[token]]"]),
        ("[[token]]\nstarts=['ab']", ["[[token]]", "bad name None"]),
        ("[[token]]\nname='A b'", ["bad name 'A b'", "small letters"]),
        ("[[token]]\nname='a'\nstarts=['ab']\nsource='x'", ["[[token]] a", "'pattern' is missing"]),
        ("[[token]]\nname='a'\nregex='x'", ["[[token]] a", "unknown key 'regex'", "starts, pattern"]),
        ("[[token]]\nname='a'\nstarts='ab'\npattern='x'\nsource='x'", ["a starts", "list of strings"]),
        ("[[token]]\nname='a'\nstarts=[]\npattern='x'\nsource='x'", ["a starts", "none of them empty"]),
        ("[[token]]\nname='a'\nstarts=['a']\npattern='x'\nsource='x'", ["a starts", "at least 2 bytes"]),
        ("[[token]]\nname='a'\nstarts=['ab']\npattern='('\nsource='x'", ["a pattern", "regular expression"]),
        ("[[token]]\nname='a'\nstarts=['ab']\npattern='x*'\nsource='x'", ["a pattern", "match nothing"]),
        ("[[token]]\nname='a'\nstarts=['ab']\npattern=3\nsource='x'", ["a pattern", "a str is needed"]),
        (
            "[[token]]\nname='a'\nstarts=['ab']\npattern='x'\nsource='x'\ncheck='luhn'",
            ["a check", "'luhn'", "allowed: random, jwt"],
        ),
        ("[[variable]]\nname='a'\nwords=['X']\nsource='x'\nplain_words='no'", ["a plain_words", "a bool is needed"]),
        ("[[variable]]\nname='a'\nwords=['X']", ["'source' is missing"]),
        ("= 1", ["not TOML", ": correct it there"]),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, said: list[str]) -> None:
    path = site_file(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        load_rules(path, ())
    for part in [str(path), *said]:
        assert part in str(raised.value)


def test_an_unknown_name_to_switch_off_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no redaction rule 'passwords' to switch off: known: .*password"):
        load_rules(None, ("passwords",))


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the redaction rules: /.*/gone\.toml: No such.*: name a"):
        load_rules(tmp_path / "gone.toml", ())
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"cannot read.*/binary\.toml: .* byte.*: name a regular text file"):
        load_rules(tmp_path / "binary.toml", ())
    (tmp_path / "large.toml").write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match="it is larger than 1048576 bytes: name"):
        load_rules(tmp_path / "large.toml", ())
