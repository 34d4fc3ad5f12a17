# SPDX-License-Identifier: Apache-2.0
"""Where a name stands in a text, what is around it, and where its value begins."""

from __future__ import annotations

import re

_NAME_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_REST_OF_NAME = re.compile(rb"[\w.-]*")
_MAX_LINE_BYTES = 1024
# Between a name and its value: "name": x, ['name'] = x, name := x, name: str = x, ('name', x), <name>x, <name a="b">x,
# <name value="x">, key="name" value="x", <name>name</name> <value>x, name TAB x.
BETWEEN = rb"""
    [\w.-]{0,40}
    (?P<quote>\\{0,3}["'])? \]? [ \t]{0,8}
    (?P<sign>
        (?: :[ ]? (?:str|bytes|Optional\[str\]|str[ ]\|[ ]None) [ ]? )? = (?:=|>|(?!~))
      | [:?+]= | :(?!:|//) | , | >
      | (?<=[ \t"']) [Vv]alue [ ]? = (?= [ ]?["'] )
      | (?<=[ \t]) (?: [\w:.-]{1,32} = "[^"<>\n]{0,64}" [ \t]{0,4} ){1,4} >
      | </ (?: name | key ) > \s{0,32} < (?: value | string ) >
      | \t
    )
    [ \t]{0,8}
    (?: (?<=>) <!\[CDATA\[ )?
"""
# Behind the quote that ends a string: print("password: " + x), f("password:", x).
_STRING_ENDS = re.compile(rb"""["'](?:[\s+%,;:)\]}.&|<>]|\Z)""")
_LINE_OF_ENV = re.compile(rb"[A-Za-z_]\w{0,127}=")


class Place:
    """A name from `start` to `name_end`, and what `match` (of a pattern that ends with BETWEEN) found behind it."""

    def __init__(self, content: bytes, start: int, name_end: int, match: re.Match[bytes]) -> None:
        self.start = start
        self.sign: bytes = match["sign"]
        self.closing_quote: bytes = match["quote"] or b""
        self.value_start = match.end()
        self.before = content[max(0, start - 2) : start]
        # 'NAME=VALUE', as `set -x` writes an export of a value with blanks.
        self.outer_quote = self.before[-1:] if self.before[-1:] in (b'"', b"'") and not self.closing_quote else b""
        self.is_shell = self.value_start - name_end == len(self.sign) and self.sign in (b"=", b"+=")
        name = content[start:name_end]
        # A name in capitals is that of a variable of the environment, where the rules need not be careful.
        self.is_capital = name.isupper()
        self.is_variable = self.is_capital and (self.is_shell or b"_" in name)
        # "Enter password: ERROR 2002", "DB_PASSWORD: unbound variable", "if password == expected".
        self.is_prose = not self.closing_quote and self.sign in (b":", b"==", b"\t")

    def holds_none(self, content: bytes) -> bool:
        """Whether no value need be read: ${TOKEN:-...} (which has its own rule), https://token:..., a > that closes no
        <token>, a comma behind no 'token', and the end of "Password: "."""
        if self.before.endswith((b"$", b"${", b"//")):
            return True
        # <name>password</name> <value>x, <password>x
        opening = b">" if self.sign.startswith(b"<") else b"<"
        if self.sign.endswith(b">") and not self.sign.endswith(b"=>") and not self.before.endswith(opening):
            return True
        if self.sign[1:5] == b"alue" and not (self.closing_quote or self.before.endswith(b"<")):
            return True
        if self.sign == b"," and not self.closing_quote:
            return True
        if self.sign == b"\t" and (self.closing_quote or not is_first_of_line(content, self.start)):
            return True
        return self._ends_string(content)

    def _ends_string(self, content: bytes) -> bool:
        """Whether the quote behind the name closes a string that the name stands in."""
        if self.closing_quote:
            return False
        if self.outer_quote and content.startswith(self.outer_quote, self.value_start):
            return True
        if not _STRING_ENDS.match(content, self.value_start):
            return False
        quote = content[self.value_start : self.value_start + 1]
        return content.count(quote, line_start(content, self.start), self.start) % 2 == 1

    def is_line_of_env(self, content: bytes) -> bool:
        """Whether it stands in what `env` prints, where a value ends with its line: at the beginning of a line, above
        or below another NAME=VALUE."""
        if not (self.is_variable and self.is_shell and content[self.start - 1 : self.start] in (b"", b"\n")):
            return False
        line_end = content.find(b"\n", self.value_start, self.value_start + _MAX_LINE_BYTES)
        if line_end >= 0 and _LINE_OF_ENV.match(content, line_end + 1):
            return True
        return self.start > 0 and _LINE_OF_ENV.match(content, line_start(content, self.start - 1)) is not None


def name_start(content: bytes, at: int, max_bytes: int) -> int:
    """Where the name begins that the place `at` is in, at most so many bytes before it."""
    before = content[max(0, at - max_bytes) : at]
    return at - (len(before) - len(before.rstrip(_NAME_BYTES)))


def line_start(content: bytes, at: int) -> int:
    """Where the line of `at` begins, or 1024 bytes before it."""
    first = max(0, at - _MAX_LINE_BYTES)
    return max(first, content.rfind(b"\n", first, at) + 1)


def is_first_of_line(content: bytes, at: int) -> bool:
    """Whether only blanks stand before it on its line."""
    return not content[line_start(content, at) : at].strip(b" \t\r")


def name_end(content: bytes, at: int) -> int:
    """Where it ends."""
    match = _REST_OF_NAME.match(content, at)
    return match.end() if match else at
