# SPDX-License-Identifier: Apache-2.0
"""The corpus of tests/data/redaction with its random parts filled in, the same on each run; see its README.md."""

from __future__ import annotations

import base64
import json
import random
import re
import string
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parents[3] / "data" / "redaction"
_OPEN, _CLOSE = "⟦", "⟧"
_PART = re.compile(r"\{([a-z0-9_]+):([A-Z]*|\d+)\}")
_BASE64 = string.ascii_letters + string.digits + "+/"
_ALPHABETS = {
    "alnum": string.ascii_letters + string.digits,
    "lower": string.ascii_lowercase,
    "upper": string.ascii_uppercase + string.digits,
    "digits": string.digits,
    "hex": "0123456789abcdef",
    "base64": _BASE64,
    "base64url": string.ascii_letters + string.digits + "-_",
    "base32": string.ascii_uppercase + "234567",
}


@dataclass(frozen=True)
class Case:
    """One entry. `pieces` are the text between the secrets, one more than there are `secrets`."""

    kind: str
    pieces: tuple[str, ...]
    secrets: tuple[str, ...]

    @property
    def text(self) -> str:
        """The entry as a job leaves it."""
        parts = [self.pieces[0]]
        for secret, piece in zip(self.secrets, self.pieces[1:], strict=True):
            parts += [secret, piece]
        return "".join(parts)

    @property
    def redacted(self) -> re.Pattern[str]:
        """What becomes of it. What is read as a script keeps its lines."""
        pattern = re.escape(self.pieces[0])
        for secret, piece in zip(self.secrets, self.pieces[1:], strict=True):
            lines = secret.count("\n") if self.kind == "shell" else 0
            pattern += r"\[redacted:[0-9a-f]{12}\]" + r"\n" * lines + re.escape(piece)
        return re.compile(pattern)

    @property
    def variable(self) -> tuple[str, str]:
        """Name and value of an entry of an environment."""
        name, _, value = self.text.partition("=")
        return name, value


def secrets() -> list[Case]:
    """Everything that must go."""
    return _load("secrets.toml")


def lookalikes() -> list[Case]:
    """Everything that must stay."""
    return _load("lookalikes.toml")


def _load(name: str) -> list[Case]:
    document = tomllib.loads((DATA / name).read_text())
    dice = random.Random(name)
    return [_case(kind, template, dice) for kind, templates in document.items() for template in templates]


def _case(kind: str, template: str, dice: random.Random) -> Case:
    text = _PART.sub(lambda part: _fill(part[1], part[2], dice), template)
    parts = re.split(f"[{_OPEN}{_CLOSE}]", text)
    return Case(kind, tuple(parts[::2]), tuple(parts[1::2]))


def _characters(alphabet: str, size: int, dice: random.Random) -> str:
    return "".join(dice.choices(alphabet, k=size))


def _password(size: int, dice: random.Random) -> str:
    return dice.choice(string.ascii_letters) + _characters(_ALPHABETS["alnum"] + "!#%^*+_-~@", size - 1, dice)


def _pem(lines: int, dice: random.Random) -> list[str]:
    return [_characters(_BASE64, 64, dice) for _ in range(lines - 1)] + [_characters(_BASE64, 26, dice) + "=="]


def _jwt(size: int, dice: random.Random) -> str:
    def encoded(part: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")

    header = encoded({"alg": "HS256", "typ": "JWT"})
    body = encoded({"exp": dice.randrange(10**9, 2 * 10**9), "sun": "trainer"})
    return f"{header}.{body}.{_characters(_ALPHABETS['base64url'], size, dice)}"


def _basic(size: int, dice: random.Random) -> str:
    return base64.b64encode(f"user:{_characters(_ALPHABETS['alnum'], size, dice)}".encode()).decode()


def _fill(kind: str, argument: str, dice: random.Random) -> str:
    if kind in ("begin", "end"):
        return f"-----{kind.upper()} {argument + ' ' if argument else ''}PRIVATE KEY-----"
    size = int(argument)
    made: dict[str, Callable[[], str]] = {
        "password": lambda: _password(size, dice),
        "jwt": lambda: _jwt(size, dice),
        "basic": lambda: _basic(size, dice),
        "pem": lambda: "\n".join(_pem(size, dice)),
        "pem_escaped": lambda: r"\n".join(_pem(size, dice)),
    }
    return made[kind]() if kind in made else _characters(_ALPHABETS[kind], size, dice)
