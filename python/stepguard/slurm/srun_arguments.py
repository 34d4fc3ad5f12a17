# SPDX-License-Identifier: Apache-2.0
"""srun's command line, read as srun's getopt reads it, and written back with options taken out or put in.

Words are str with undecodable bytes kept (surrogateescape), so that what is not touched stays the same to the byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stepguard.errors import UsageError
from stepguard.slurm.srun_options import ALIASES, OPTIONS, VARIABLES

_SHORT = {form[0]: name for name, form in OPTIONS.items() if form[:1].isalpha()}
_REQUIRES_VALUE = frozenset(name for name, form in OPTIONS.items() if form.endswith(":") and not form.endswith("::"))
# In `srun --help`: "  -N, --nodes=N", "      --pty[=fd]", "      --exact".
_HELP_LINE = r"(?m)^ {2,6}(?:-\w, )?--([a-z][\w-]*)(\[?=)?"


class Option(NamedTuple):
    """One option as given: its long name, its value (None without one), and where it stands.

    It is `words[word][begin:end]`, and the whole next word too where `value_follows`.
    """

    name: str
    value: str | None
    word: int
    begin: int
    end: int
    value_follows: bool


@dataclass(frozen=True)
class SrunCommand:
    """srun's words: `words[0]` is srun, `words[command_at]` the program (len(words) where there is none)."""

    words: tuple[str, ...]
    options: tuple[Option, ...]
    command_at: int
    environment: Mapping[str, str] = field(default_factory=dict)

    def given(self, name: str) -> bool:
        """Whether the option is on the command line."""
        return any(option.name == name for option in self.options)

    def value(self, name: str) -> str:
        """The option's value: the last one given, else that of the variable which stands for it, else ""."""
        for option in reversed(self.options):
            if option.name == name:
                return option.value or ""
        return self.environment.get(VARIABLES.get(name, ""), "")

    @property
    def program(self) -> str:
        """The program to run, "" without one."""
        return self.words[self.command_at] if self.command_at < len(self.words) else ""

    @property
    def nodes(self) -> tuple[int, int] | None:
        """-N on the command line as (min, max), None without it. "3" is (3, 3); "2-5:2" is (2, 5)."""
        numbers = re.findall(r"(\d+)([kKmM]?)", self.value("nodes").partition(":")[0])
        counts = [int(number) * {"": 1, "k": 1024, "m": 1048576}[unit.lower()] for number, unit in numbers]
        return (counts[0], counts[-1]) if counts else None

    @property
    def num_tasks(self) -> int | None:
        """-n on the command line, None without it."""
        text = self.value("ntasks")
        return int(text) if text.isdigit() else None

    @property
    def nodelist(self) -> str:
        """-w as given: a host list, or the name of a file of hosts where it holds a "/"."""
        return self.value("nodelist")

    @property
    def nodefile(self) -> str:
        """-F as given, or the file that -w names."""
        return self.value("nodefile") or (self.nodelist if "/" in self.nodelist else "")

    @property
    def exclude(self) -> str:
        """-x as given: a host list or the name of a file."""
        return self.value("exclude")

    @property
    def distribution(self) -> str:
        """-m or its variable, as given: "block:cyclic", "arbitrary"."""
        return self.value("distribution")

    @property
    def open_mode(self) -> str:
        """--open-mode or its variable: "append", "truncate", or a beginning of these."""
        return self.value("open-mode")

    @property
    def output(self) -> str:
        """-o or its variable, a pattern."""
        return self.value("output")

    @property
    def error(self) -> str:
        """-e or its variable, a pattern."""
        return self.value("error")

    @property
    def input(self) -> str:
        """-i or its variable."""
        return self.value("input")

    @property
    def job_id(self) -> str:
        """--jobid on the command line."""
        return self.value("jobid")

    @property
    def mpi(self) -> str:
        """--mpi or its variable."""
        return self.value("mpi")

    @property
    def pty(self) -> bool:
        """Task 0 runs in a pseudo terminal."""
        return self.given("pty")

    @property
    def no_kill(self) -> bool:
        """The step goes on when it loses a node; "--no-kill=off" takes that back."""
        said = self.given("no-kill") or bool(self.value("no-kill"))
        return said and self.value("no-kill") not in ("off", "no")

    def kills_on_bad_exit(self, by_default: bool) -> bool:
        """Whether srun ends all tasks when one fails: -K[0|1], its variable, or KillOnBadExit, the default."""
        said = self.value("kill-on-bad-exit")
        return said != "0" if said or self.given("kill-on-bad-exit") else by_default

    @property
    def is_het(self) -> bool:
        """It has several components: srun takes every word ":" behind the program as the border of two."""
        return ":" in self.words[self.command_at :]


def parse(
    words: Sequence[str],
    command_at: int | None = None,
    environment: Mapping[str, str] | None = None,
    help_text: Callable[[], str] | None = None,
) -> SrunCommand:
    """Reads srun's words, `words[0]` being srun itself.

    `command_at` is where srun's own getopt found the program, where that is known: then a word before it that is no
    option is the value of the unknown option (another SPANK plugin's) in front of it. Elsewhere `help_text` is called
    for the text of `srun --help`, once, when an option is unknown or its abbreviation fits several.
    Raises UsageError where an option's value is missing or an abbreviation stays ambiguous.
    """
    reader = _Reader(tuple(words), command_at, help_text)
    options = tuple(reader.options())
    return SrunCommand(tuple(words), options, reader.position, environment or {})


def with_overrides(command: SrunCommand, overrides: Mapping[str, str | None], drop: Collection[str] = ()) -> list[str]:
    """The words with `overrides` in place of what was given for them, and without the options in `drop`.

    Names are long ones; a value of None is an option without one. The new options stand in front of the program
    (of "--" where that precedes it). Nothing else is touched.
    """
    gone = [option for option in command.options if option.name in overrides or option.name in drop]
    removed = {option.word + 1 for option in gone if option.value_follows}
    kept: list[str] = []
    for index, word in enumerate(command.words[: command.command_at]):
        if index in removed:
            continue
        here = [option for option in gone if option.word == index]
        for option in reversed(here):
            word = word[: option.begin] + word[option.end :]
        if not here or word not in ("", "-"):
            kept.append(word)
    new = [f"--{name}" if value is None else f"--{name}={value}" for name, value in overrides.items()]
    at = len(kept) - 1 if _ends_options(command) else len(kept)
    return [*kept[:at], *new, *kept[at:], *command.words[command.command_at :]]


def _ends_options(command: SrunCommand) -> bool:
    """Whether the word in front of the program is "--" itself, not an option's value."""
    before = command.command_at - 1
    values = {option.word + 1 for option in command.options if option.value_follows}
    return before > 0 and command.words[before] == "--" and before not in values


class _Reader:
    def __init__(self, words: tuple[str, ...], command_at: int | None, help_text: Callable[[], str] | None) -> None:
        self._words = words
        self._command_at = command_at
        self._help_text = help_text
        self._help: dict[str, bool] | None = None
        self.position = 1

    def options(self) -> Iterator[Option]:
        """Reads up to the program, where `position` stays."""
        end = len(self._words) if self._command_at is None else self._command_at
        while self.position < end:
            word = self._words[self.position]
            if word == "--":
                self.position += 1
                return
            if len(word) < 2 or word[0] != "-":
                return
            yield from self._long(word) if word.startswith("--") else self._short(word)
            self.position += 1

    def _long(self, word: str) -> Iterator[Option]:
        at = self.position
        given, equals, value = word[2:].partition("=")
        name, takes_value = self._resolve(given)
        follows = not equals and (takes_value or self._is_value(at + 1, given))
        if follows:
            value = self._next_word(word)
        yield Option(name, value if equals or follows else None, at, 0, len(word), follows)

    def _short(self, word: str) -> Iterator[Option]:
        at, begin = self.position, 1
        while begin < len(word):
            letter = word[begin]
            name = _SHORT.get(letter, letter)
            form = OPTIONS.get(name, "")
            end = len(word) if ":" in form else begin + 1
            value = word[begin + 1 : end]
            follows = name in _REQUIRES_VALUE and not value
            if follows:
                value = self._next_word(f"-{letter}")
            yield Option(name, value if value or follows else None, at, begin, end, follows)
            begin = end

    def _resolve(self, given: str) -> tuple[str, bool]:
        """The full name of a long option, and whether it takes the next word."""
        if given in OPTIONS:
            return ALIASES.get(given, given), given in _REQUIRES_VALUE
        fits = [name for name in OPTIONS if name.startswith(given)]
        if len(fits) == 1:
            return ALIASES.get(fits[0], fits[0]), fits[0] in _REQUIRES_VALUE
        helped = self._from_help()
        if given in helped:
            return given, helped[given]
        narrowed = [name for name in helped if name.startswith(given)]
        if len(narrowed) == 1:
            return narrowed[0], helped[narrowed[0]]
        if fits or narrowed:
            raise UsageError("ambiguous option", f"--{given}", "may be --" + ", --".join(narrowed or fits))
        return given, False

    def _from_help(self) -> dict[str, bool]:
        if self._help is None:
            text = self._help_text() if self._help_text is not None else ""
            self._help = {name: sign == "=" for name, sign in re.findall(_HELP_LINE, text)}
        return self._help

    def _is_value(self, index: int, given: str) -> bool:
        """Whether an unknown option's value stands in the next word: srun's getopt went past it."""
        known = given in OPTIONS or any(name.startswith(given) for name in OPTIONS)
        if known or self._command_at is None or index >= self._command_at:
            return False
        return not self._words[index].startswith("-")

    def _next_word(self, option: str) -> str:
        self.position += 1
        if self.position >= len(self._words):
            raise UsageError("option needs a value", option, "srun --help lists the options")
        return self._words[self.position]
