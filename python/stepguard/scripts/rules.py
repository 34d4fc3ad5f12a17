# SPDX-License-Identifier: Apache-2.0
"""The rules, from rules.toml, and what they find."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

SEVERITIES = ("error", "warning", "info")
"""The worst first."""


class Rule(NamedTuple):
    """One rule; rules.toml says what each of these is."""

    id: str
    kind: str
    severity: str
    title: str
    why: str
    instead: str
    source: str


class Finding(NamedTuple):
    """What a rule found. `line` and `column` count from 1; `message` says what, `fix` what to write instead."""

    rule: Rule
    severity: str
    line: int
    column: int
    message: str
    fix: str
    text: str = ""


@cache
def rules() -> dict[str, Rule]:
    """All rules, by kind."""
    import tomllib
    from importlib.resources import files

    table = tomllib.loads(files("stepguard.scripts").joinpath("rules.toml").read_text(encoding="utf-8"))
    return {entry["kind"]: Rule(**entry) for entry in table["rule"]}


def by_id(name: str) -> Rule | None:
    """The rule of that id or kind."""
    return next((rule for rule in rules().values() if name.lower() in (rule.id.lower(), rule.kind)), None)
