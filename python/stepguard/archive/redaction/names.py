# SPDX-License-Identifier: Apache-2.0
"""Which names of variables hold secrets: decided by their words, so that TOKENIZERS_PARALLELISM is no TOKEN."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# HFToken is HF Token, APIKey is API Key, S3_SECRET2 is S 3 SECRET 2.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_LONGEST_FORM = 4
# Longer names are not looked at: nobody's, and each is looked up only once otherwise.
MAX_NAME_BYTES = 128
_MAX_REMEMBERED = 10_000


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name in capitals."""
    return tuple(word.upper() for word in _WORD.findall(name))


@dataclass(frozen=True)
class Variable:
    """A rule about names; see rules.toml."""

    name: str
    words: tuple[str, ...]
    source: str
    not_after: tuple[str, ...] = ()
    not_before: tuple[str, ...] = ()
    but_not: tuple[str, ...] = ()
    plain_words: bool = True
    paths: bool = True
    vague: bool = False


@dataclass(frozen=True)
class Harmless:
    """Names that hold no secret although a Variable says so; see rules.toml."""

    name: str
    source: str
    ends: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


class Names:
    """All the rules about names; what it has been asked it remembers."""

    def __init__(self, variables: Sequence[Variable], harmless: Sequence[Harmless]) -> None:
        self._forms: dict[tuple[str, ...], Variable] = {}
        self._endings: dict[str, Variable] = {}
        for variable in variables:
            for form in variable.words:
                if form.startswith("*"):
                    self._endings[form[1:]] = variable
                else:
                    self._forms[tuple(form.split())] = variable
        self._ends = {end for rule in harmless for end in rule.ends}
        self._harmless = {words_of(name) for rule in harmless for name in rule.names}
        self._remembered: dict[str, Variable | None] = {}

    def rule(self, name: str) -> Variable | None:
        """The rule by which a variable of this name holds a secret; None for an ordinary one."""
        if len(name) > MAX_NAME_BYTES:
            return None
        try:
            return self._remembered[name]
        except KeyError:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            found = self._remembered[name] = self._look_up(words_of(name))
            return found

    def last_words(self) -> list[str]:
        """One word of each rule, without which none of its names can be: what to look for in text."""
        singles = set(self._endings)
        for form in self._forms:
            singles.add(next(word for word in reversed(form) if len(word) > 2))
        return sorted(singles)

    def _look_up(self, words: tuple[str, ...]) -> Variable | None:
        if words in self._harmless:
            return None
        end = len(words)
        while end and words[end - 1].isdigit():
            end -= 1
        for start in range(end):
            for stop in range(min(end, start + _LONGEST_FORM), start, -1):
                rule = self._forms.get(words[start:stop])
                if rule is None and stop == start + 1:
                    rule = self._by_ending(words[start])
                if rule is not None and self._holds(rule, words[:end], start, stop):
                    return rule
        return None

    def _by_ending(self, word: str) -> Variable | None:
        return next(
            (rule for end, rule in self._endings.items() if word.endswith(end) and word not in rule.but_not), None
        )

    def _holds(self, rule: Variable, words: tuple[str, ...], start: int, stop: int) -> bool:
        if start and words[start - 1] in rule.not_after:
            return False
        if rule.vague and stop < len(words):
            return False
        if stop < len(words):
            return words[stop] not in rule.not_before and words[-1] not in self._ends
        return True
