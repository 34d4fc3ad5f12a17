# SPDX-License-Identifier: Apache-2.0
"""Shell text → tree.py's tree, on tree-sitter-bash.

tree-sitter finds its way after an error, but often takes all that follows for one string. So a command that it stumbles
over is closed by the mark that it may lack, or its line blanked out, and the text parsed again, a few times: the rest
of the script is then read as what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from stepguard.scripts.origin import Origin
from stepguard.scripts.shell.builder import Builder
from stepguard.scripts.shell.limits import readable_end
from stepguard.scripts.shell.oddities import without_oddities
from stepguard.scripts.shell.tree import Statement

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Query

_MAX_REPAIRS = 4
_MANY_BYTES = 16 * 1024  # they are parsed for the second time only once
_LONG_BYTES = 8 * 1024  # of those that is not found out what is broken
# To find out what is broken, so much is parsed besides: 10 ms. Each text counts for so much at least.
_TRIED_MAX_BYTES, _TRIED_MIN_BYTES = 32 * 1024, 128
# Written as their plain cousins, of the same length: tree-sitter-bash 0.25 does not know them.
_UNKNOWN_TO_GRAMMAR = re.compile(
    rb"(?<![\w$./-])(?:time(?:[ \t]+-p)?|!|coproc(?:[ \t]+\w+)?)(?=[ \t]+(?:\{|(?:for|while|until|if|case|select)\b)\s)"
    rb"|;;?&(?=\s)|\$\{\w+:\$(?=[\w(])|(?<=\s)\\[<>](?=\s)|(?<=\s)\\(?=\s*\Z)"
)
_GLUED_END = re.compile(rb"(?<!<)<<-?[ \t]*[\"'\\]?\w+[\"']?;")  # it takes the ";" for a part of the document's end
# A=1 B=2 on a line: tree-sitter-bash 0.25 takes what stands on the next ones for a part of the same command.
_SEVERAL_ASSIGNED = re.compile(rb"[^\s;&|][ \t]+[A-Za-z_]\w*(?:\[[^\]\n]*\])?\+?=")
_COMMAND_LINES = re.compile(rb"(?:[^\n]*(?:\\|\||&&)\n)*[^\n]+")  # those that a command is written on
_CLOSINGS = (b'"', b"'", b")", b'")', b"`")
_BLOCK = re.compile(rb"([ \t]*)(if|for|while|until|select|case|\{)\s")
# A line that goes on where a block ended, if it is indented as the block's first.
_LEVEL = re.compile(rb"(?m)^([ \t]*)(?!then\b|do\b|el(?:se|if)\b|fi\b|done\b|esac\b|;;|[{}])(?=[^\s#])")
_BLOCK_ENDS = {b"if": b"fi", b"case": b"esac", **dict.fromkeys((b"for", b"while", b"until", b"select"), b"done")}
_MAX_LINES = 40  # among which one is looked for that may be closed
_MAX_CLOSED = 8
_TWO_LINES = "(command (variable_assignment) (variable_assignment)) @command"
# $A/$B/c in one word: tree-sitter-bash 0.25 takes the second "$" for text and ends the word there; not ${A}/${B}/c.
# So it does with $$ behind a redirect.
_BARE_IN_WORD = re.compile(rb"(?<![\\$])\$([A-Za-z_]\w*(?=[-/.,:@%+~^?*\\])|\d|\$(?![\w({$'\"]))")

# ${A:-`…`}: tree-sitter-bash 0.25 takes it for text; not ${A:-$(…)}.
_BACKTICKS_IN_DEFAULT = re.compile(rb"(?<=[-=+])`([^`\\\n]*)`(?=\})")
# `… \`…\` …`: it does not read what stands within.
_BACKTICKS_WITHIN = re.compile(rb"(?<!\\)(`(?:[^`\\\n]|\\[^`\n])*)\\`([^`\\\n]*)\\`(?=(?:[^`\\\n]|\\[^`\n])*`)")


class Reading(NamedTuple):
    """`broken_at`: where the first thing stands that could not be read, else -1. `documents`: where here-documents
    stand, (start, end)."""

    statements: tuple[Statement, ...]
    broken_at: int
    documents: tuple[tuple[int, int], ...]

    @property
    def whole(self) -> bool:
        return self.broken_at < 0


NOTHING = Reading((), -1, ())


class _Trials:
    """Texts that are parsed only to see whether they are whole."""

    def __init__(self) -> None:
        self._left_bytes = _TRIED_MAX_BYTES

    def whole(self, data: bytes) -> Node | None:
        """What the text is, if it is whole, and may still be parsed."""
        self._left_bytes -= max(len(data), _TRIED_MIN_BYTES)
        if self._left_bytes < 0:
            return None
        root = _parser().parse(data).root_node
        return None if root.has_error else root


@cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


@cache
def _two_lines() -> Query:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Query(tree_sitter.Language(tree_sitter_bash.language()), _TWO_LINES)


def read(data: bytes, origin: Origin | None = None) -> Reading:
    """Reads a script, or what is one inside of another, which stands in the file at `origin`."""
    end = readable_end(data)
    too_much, data = end < len(data), data[:end]
    data, origin = _with_braces(_UNKNOWN_TO_GRAMMAR.sub(_known, data), origin or Origin())
    parse = _parser().parse
    root = parse(data).root_node
    if root.has_error or _GLUED_END.search(data):
        data = without_oddities(data)
        root = parse(data).root_node
    broken_at = origin.at(len(data)) if too_much else -1
    if root.has_error:
        trials = _Trials()
        end = _understood_end(data, root, trials)
        broken_at = origin.at(end)
        for repaired, moved in _repaired(data, end, origin, trials):
            if (attempt := trials.whole(repaired)) is not None:
                data, origin, root = repaired, moved, attempt
                break
    for _ in range(_MAX_REPAIRS if len(data) < _MANY_BYTES else 1):
        if not root.has_error:
            break
        data = _without_line(data, _stumble(root))
        root = parse(data).root_node
    if _SEVERAL_ASSIGNED.search(data) and (ended := _with_ended_assignments(data, root)) != data:
        data, root = ended, parse(ended).root_node
    builder = Builder(data, origin)
    statements = builder.statements([root] if root.type == "ERROR" else root.children)
    return Reading(statements, broken_at if broken_at >= 0 else builder.left_out_at, tuple(builder.documents))


def _with_braces(data: bytes, origin: Origin) -> tuple[bytes, Origin]:
    """$NAME as ${NAME} and `…` as $(…) where the grammar needs it, and where the bytes were before."""
    if b"\\`" in data:
        data = _BACKTICKS_WITHIN.sub(rb"\1$(\2 )", data)
    if b"`}" in data:
        data, origin = _with_parentheses(data, origin)
    made = bytearray()
    pieces = [(0, 0)]
    position = 0
    for found in _BARE_IN_WORD.finditer(data):
        made += data[position : found.start()]
        made += b"${%b}" % found[1]
        position = found.end()
        pieces.append((len(made), position))
    if not position:
        return data, origin
    made += data[position:]
    return bytes(made), Origin(pieces, origin)


def _with_parentheses(data: bytes, origin: Origin) -> tuple[bytes, Origin]:
    made = bytearray()
    pieces = [(0, 0)]
    position = 0
    for found in _BACKTICKS_IN_DEFAULT.finditer(data):
        made += data[position : found.start()] + b"$("
        pieces.append((len(made), found.start(1)))
        made += found[1] + b")"
        position = found.end()
    return bytes(made + data[position:]), Origin(pieces, origin)


def _with_ended_assignments(data: bytes, root: Node) -> bytes:
    """Lines of several assignments with a ";" behind them, where the grammar has read on over the line's end."""
    from tree_sitter import QueryCursor

    made = bytearray(data)
    for command in QueryCursor(_two_lines()).captures(root).get("command", ()):
        parts = [child for child in command.children if child.type != "comment"]
        for part, following in pairwise(parts):
            behind = data[part.end_byte : following.start_byte].replace(b"\\\n", b"")
            if part.type == "variable_assignment" and b"\n" in behind and behind[:1].isspace():
                made[part.end_byte] = ord(";")
    return bytes(made)


def _known(found: re.Match[bytes]) -> bytes:
    text = found[0]
    if text[:1] == b"\\":
        return b"==" if len(text) > 1 else b" "
    if text[:1] in b"tc!":
        return b" " * len(text)
    return b";;" + b" " * (len(text) - 2) if text[:1] == b";" else text[:-1] + b" "


def _understood_end(data: bytes, root: Node, trials: _Trials) -> int:
    """Where something begins that is no statement: no later than where the grammar stumbles, and behind lines that are
    whole by themselves. For a long script it is where the grammar stumbles, which may be far from the cause."""
    if len(data) > _LONG_BYTES:
        return _stumble(root)
    starts = [0, *(start for start in _starts(root) if data[start - 1 : start] == b"\n")]
    low, high = 0, len(starts)
    while high - low > 1:
        middle = (low + high) // 2
        if trials.whole(data[: starts[middle]]) is None:
            high = middle
        else:
            low = middle
    return starts[low]


def _starts(root: Node) -> Iterator[int]:
    """Where statements begin, as far as the grammar sees any."""
    for node in root.children:
        if node.type == "ERROR":
            yield from (child.start_byte for child in node.children)
        else:
            yield node.start_byte


def _stumble(root: Node) -> int:
    """The offset of the first thing that is part of no statement."""
    node = root
    while True:
        bad = next((child for child in node.children if child.has_error or child.is_missing), None)
        if node.type == "ERROR":
            loose = next((child for child in node.children if _is_loose(child)), None)
            if loose is not None and (bad is None or loose.start_byte <= bad.start_byte):
                return loose.start_byte
        if bad is None or bad.is_missing:
            return (bad or node).start_byte
        node = bad


def _is_loose(node: Node) -> bool:
    return node.type not in ("comment", "\n", ";") and (not node.is_named or node.type in ("word", "string_content"))


def _repaired(data: bytes, offset: int, origin: Origin, trials: _Trials) -> Iterator[tuple[bytes, Origin]]:
    """The text with the block ended that begins there; with a command closed, by each of what it may lack; with one
    below closed that is whole then; without the line."""
    start = data.rfind(b"\n", 0, offset) + 1
    if (begun := _BLOCK.match(data, start)) and len(data) <= _LONG_BYTES:
        end = next((line.start() for line in _LEVEL.finditer(data, begun.end()) if len(line[1]) <= len(begun[1])), -1)
        mark = _BLOCK_ENDS.get(begun[2], b"}") + b"\n"
        if end >= 0:
            yield data[:end] + mark + data[end:], Origin([(0, 0), (end + len(mark), end)], origin)
        yield data.rstrip() + b"\n" + mark, origin
    places = []
    for found in islice(_COMMAND_LINES.finditer(data, start), _MAX_LINES if len(data) <= _LONG_BYTES else 0):
        alone = found.start() != start
        if not alone or trials.whole(found[0]) is None:
            places += [(found.end(), mark) for mark in _CLOSINGS if not alone or trials.whole(found[0] + mark)]
    for end, mark in places[:_MAX_CLOSED]:
        yield data[:end] + mark + data[end:], Origin([(0, 0), (end + len(mark), end)], origin)
    yield _without_line(data, offset), origin


def _without_line(data: bytes, offset: int) -> bytes:
    start = data.rfind(b"\n", 0, offset) + 1
    end = data.find(b"\n", max(offset, start))
    end = len(data) if end < 0 else end
    return data[:start] + b" " * (end - start) + data[end:]
