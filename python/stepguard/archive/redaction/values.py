# SPDX-License-Identifier: Apache-2.0
"""What a value looks like: whether it can be a secret at all, and whether it is too unusual to be anything else."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from urllib.parse import unquote_to_bytes

# A longer value is no placeholder and not plain, whatever it looks like; looking closer would cost quadratic time.
_LONG_BYTES = 256
_MIN_UNUSUAL_BYTES = 8
# This much text is the secret when it equals the secret, even where it is made of plain words.
_SURELY_UNUSUAL_BYTES = 20

_SWITCH = re.compile(rb"(?i)|0|1|true|false|yes|no|on|off|none|null|nil|undefined|unset")
# What stands in place of a secret in scripts, help texts and templates.
_PLACEHOLDER = re.compile(
    rb"""(?ix)
      0|1|true|false|yes|no|on|off|none|null|nil|undefined|unset|required|optional|empty|string|str|bytes|int|bool|object
    | missing|found|valid|invalid|expired|hidden|redacted|secret|set|given|provided|todo|changeme
    | (.)\1*\.{0,3}                         # *** xxxx ....
    | \$\w+ | \$\{!?\w+\} | \$[@*?\#!] | \$\(.* | `.*      # expansions of a shell
    | \$?\{\{?[^{}]*\}\}? | %\(\w+\)s | %\w+% | %s | @\w+@  # templates
    | < [\w\ .:/-]* >? | \[[^\]]*\]? | \{.* | \(.*
    | your[-_ ].*
    """,
    re.DOTALL,
)
# Code that gets the value from somewhere: getpass(), os.environ["X"], args.token.
_CALL = re.compile(rb"(?:await |not |new )?[A-Za-z_][\w.]{0,120}[\(\[]")
_IDENTIFIER = re.compile(rb"[A-Za-z_]+(?:\.[A-Za-z_]+)*")

_PATH = re.compile(
    rb"""(?x)
    (?: ~ | \.{1,2}
      | /(?:home|root|user|users|project|projects|scratch|work|workspace|data|shared|global|tmp|run|var|usr|opt|etc|srv
          |mnt|media|net|nfs|lustre|gpfs|beegfs|ceph|efs|fsx|dev|proc|sys|boot|bin|lib|lib64|sw|software|apps)
    )
    (?: /[\w.@+%:,-]+ )+ /?
    """
)
_NUMBER = re.compile(rb"[-+]?[\d.,:_/%+-]+(?:[eE][-+]?\d+)?[a-zA-Z%/]{0,4}")
_WORDS = re.compile(rb"[A-Z]?[a-z]+(?:[-_. ][A-Z]?[a-z]+)*|[A-Z]+(?:[-_. ][A-Z]+)*")
# Words and numbers as they stand in sentences: "denied,", "read/write", "2002".
_PROSE = re.compile(rb"""[("']?(?:[A-Z]?[a-z]+|[A-Z]+)(?:[-_./,'&+]+(?:[A-Z]?[a-z]+|[A-Z]+))*[\W_]*|[\W_]+""", re.ASCII)
_CHOSEN = re.compile(rb"(?=[^A-Za-z]*[A-Za-z])(?=[^0-9]*[0-9])(?=[^!#$^*~]*[!#$^*~])[!-~]{8,}")

_NOT_BASE64 = re.compile(rb"\\[rn]|[^A-Za-z0-9+/=]")


def is_switch(value: bytes) -> bool:
    """Whether it is nothing, or only says yes or no: no secret, whatever its name."""
    return len(value) < _MIN_UNUSUAL_BYTES + 2 and _SWITCH.fullmatch(value) is not None


def is_placeholder(value: bytes) -> bool:
    """Whether it stands for a secret that is elsewhere."""
    return len(value) <= _LONG_BYTES and _PLACEHOLDER.fullmatch(value) is not None


def is_code(value: bytes) -> bool:
    """Whether an unquoted value is an expression that gets it from somewhere."""
    return len(value) <= _LONG_BYTES and _CALL.match(value) is not None


def is_identifier(value: bytes) -> bool:
    """Whether it could be the name of a variable or an attribute."""
    return len(value) <= _LONG_BYTES and _IDENTIFIER.fullmatch(value) is not None


def is_path(value: bytes) -> bool:
    """Whether it is a path below a directory that file systems have; base64 may start with "/" as well."""
    return len(value) <= 4096 and _PATH.fullmatch(value) is not None


def is_unusual(value: bytes) -> bool:
    """Whether it is so long and so unlike a word, a number or a path that it means only one thing wherever it is."""
    if len(value) < _MIN_UNUSUAL_BYTES:
        return False
    if len(value) > _LONG_BYTES:
        return True
    if is_path(value) or _NUMBER.fullmatch(value):
        return False
    return len(value) >= _SURELY_UNUSUAL_BYTES or _WORDS.fullmatch(value) is None


def is_prose(value: bytes) -> bool:
    """Whether it may be a word or a number of a sentence."""
    if len(value) > _LONG_BYTES:
        return False
    return _PROSE.fullmatch(value) is not None or _NUMBER.fullmatch(value.rstrip(b".,:;!?)")) is not None


def is_random(value: bytes) -> bool:
    """Whether it looks made by a generator: digits among letters, and not the words of a file's or a program's name."""
    value = value[:_LONG_BYTES]
    if not is_unusual(value) or _WORDS.fullmatch(value):
        return False
    parts = re.split(rb"[^A-Za-z0-9]+", value)
    return any(len(part) >= 8 and _changes(part) >= 3 for part in parts)


def is_like_a_secret(value: bytes) -> bool:
    """Whether it looks random, or like a password that somebody chose: letters, digits, and a sign that neither names
    nor paths have; or is too long to tell."""
    return len(value) > _LONG_BYTES or is_random(value) or _CHOSEN.fullmatch(value) is not None


def _changes(part: bytes) -> int:
    """How often the kind of character changes along it, from small letters to capitals to digits."""
    return len(re.findall(rb"[a-z]+|[A-Z]+|\d+", part)) - 1


def is_jwt(value: bytes) -> bool:
    """Whether its first part decodes to JSON that names an algorithm (RFC 7515 section 4.1.1)."""
    first = value.split(b".", 1)[0]
    try:
        header = json.loads(base64.urlsafe_b64decode(first + b"=" * (-len(first) % 4)))
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and "alg" in header


def base64_alone(value: bytes) -> bytes:
    """The base64 of the lines of a private key, without line ends, labels of ranks and quotes."""
    return _NOT_BASE64.sub(b"", value)


def _password_of_basic(value: bytes) -> bytes:
    try:
        decoded = base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return value
    return decoded.partition(b":")[2] or value


# By the words that rules.toml uses.
CHECKS: dict[str, Callable[[bytes], bool]] = {"random": is_random, "jwt": is_jwt}
DECODERS: dict[str, Callable[[bytes], bytes]] = {
    "percent": unquote_to_bytes,
    "basic": _password_of_basic,
    "pem": base64_alone,
}
