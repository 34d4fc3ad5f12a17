# SPDX-License-Identifier: Apache-2.0
"""What shells take and tree-sitter-bash 0.25 stumbles over, rewritten as what it takes for the same.

Used only where the grammar stumbled. All keeps its length, so that offsets stay; and what a pattern matches, a
descriptor or a message goes to does not matter here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice

# The descriptor that a here-string is given behind another redirect, where the grammar takes it for two of them.
HERE_STRING = b"77"
_BRACKETS = bytes.maketrans(b"[]()", b"____")


def _filled(found: re.Match[bytes]) -> bytes:
    return b"_" * len(found[0])


def _blank(found: re.Match[bytes]) -> bytes:
    return b" " * len(found[0])


_REWRITES: tuple[tuple[re.Pattern[bytes], Callable[[re.Match[bytes]], bytes]], ...] = (
    # ${x%]}, ${x%%[*}
    (re.compile(rb"\$\{\w+(?:%%?|##?|//?)[^}\s\"'`$]*\}"), lambda found: found[0].translate(_BRACKETS)),
    # files=(!(*.log) *.@(a|b))
    (re.compile(rb"(?<=[\s(/=.])[@?*+!]\([^()\s;]{1,200}\)"), _filled),
    # exec {fd}> file
    (re.compile(rb"(?<=[\s;])\{\w+\}(?=[<>])"), lambda found: b"9".rjust(len(found[0]))),
    # exec 9<> file
    (re.compile(rb"(?<=[\s\d])<>(?=[\s\w\"$/])"), lambda _: b"< "),
    # grep -v x$)
    (re.compile(rb"(?<=[\w\].*^])\$(?=[)`])"), _filled),
    # $((10#$n))
    (re.compile(rb"(?<=[\s(])\d+#(?=[$\w])"), _blank),
    # cat > file <<< text
    (
        re.compile(rb"([<>]&?[ \t]*(?:\"[^\"\n]*\"|[^\s<>|;&\"])+[ \t]+)<<<"),
        lambda found: found[1] + HERE_STRING + b"<",
    ),
    # for i do
    (re.compile(rb"(?<![^\s;{(&|])(for[ \t]+\w+)[ \t\n](?=[ \t]*do\b)"), lambda found: found[1] + b";"),
    # [ "$x" = ~ ]
    (re.compile(rb"(?<=\s)~(?=\s)"), _filled),
    # n=$((n + 1)) 2>/dev/null && …
    (re.compile(rb"(?<=\s)2>[ \t]*(?:/dev/null|&1)(?=[\s;)])"), _blank),
    # ssh host bash <<EOF &
    (re.compile(rb"(?m)(?<!<)<<-?[ \t]*[\"'\\]?\w[^\n]*[^&>|\n]&(?=[ \t]*$)"), lambda found: found[0][:-1] + b" "),
    # cat > file <<EOF; chmod +x file
    (
        re.compile(
            rb"(?<!<)<<-?[ \t]*[\"'\\]?\w+[\"']?[^\n;|&\"'`]*(?:;|(?<=\s)&)[ \t]"
            rb"(?![ \t]*(?:#|\n|(?:do|then|done|fi)\b))"
        ),
        lambda found: found[0][:-2] + b" |",
    ),
    # hosts=(${(f)"$(…)"}), ${(f)$(…)}, of zsh
    (
        re.compile(rb"\$\{\([^()\n]{1,20}\)(\"\$\([^\n]{0,200}?\)\"|\$\([^\n]{0,200}?\))\}"),
        lambda found: found[1].rjust(len(found[0]) - 1) + b" ",
    ),
    # ${(j:,:)hosts}, ${(s: :)list}, of zsh
    (
        re.compile(rb"\$\{\([^()\n]{1,20}\)(\w+)([^}\s\"'`$]*)\}"),
        lambda found: (b"${%b%%" % found[1]).ljust(len(found[0]) - 1, b"_") + b"}",
    ),
)
_MAX_LINES = 64  # with several documents
_LINE = re.compile(rb"(?m)^[^\n]*<<[^\n]*\n")
_DOCUMENT = re.compile(rb"(?<!<)(?P<descriptor>\d?)<<-?[ \t]*[\"'\\]?(?P<end>\w+)[\"']?")


def without_oddities(data: bytes) -> bytes:
    """The script with other words of the same lengths."""
    for pattern, rewritten in _REWRITES:
        data = pattern.sub(rewritten, data)
    return _with_single_documents(data)


def _with_single_documents(data: bytes) -> bytes:
    """Of several here-documents on one line the one that a command reads: the last without a descriptor."""
    made = bytearray(data)
    lines = (line for line in _LINE.finditer(data) if line[0].count(b"<<") > 1)
    for line in islice(lines, _MAX_LINES):
        position = line.end()
        documents = list(_DOCUMENT.finditer(data, *line.span()))
        read = next((one for one in reversed(documents) if not one["descriptor"]), None) if len(documents) > 1 else None
        for document in documents:
            end = re.compile(rb"(?m)^\t*%b$" % document["end"]).search(data, position)
            if end is None:
                break
            if document is not read and read is not None:
                _clear(made, *document.span())
                _clear(made, position, end.end())
            position = end.end()
    return bytes(made)


def _clear(made: bytearray, start: int, end: int) -> None:
    made[start:end] = re.sub(rb"[^\n]", b" ", bytes(made[start:end]))
