# SPDX-License-Identifier: Apache-2.0
"""tree-sitter's nodes of words → Word.

Whatever of a word no node covers is text (blanks before "${" in a string, for example): so the gaps are read, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from stepguard.scripts.origin import Origin
from stepguard.scripts.shell.tree import Arithmetic, Parameter, Part, Statement, Substitution, Text, Word

if TYPE_CHECKING:
    from tree_sitter import Node

_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\(\n|[$`"\\])')
_ESCAPED_IN_DOCUMENT = re.compile(r"\\(\n|[$`\\])")
_NAME = re.compile(r"[A-Za-z_]\w*")
# tree-sitter-bash 0.25 takes $((…)) in a here-document for $( (…) ).
_ARITHMETIC = re.compile(rb"\$\(\((?![^\n]*[\w}][ \t]+[\w$])[\w\s${}()+*/%<>=!&|^~?:,-]+\)\)")
_NAMES = re.compile(rb"(?<!\w)[A-Za-z_]\w*")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_MAX_DEPTH = 40  # of ${A:-${B:-…}}
_LENGTH_OR_INDIRECT = ("#", "!")


def _merged(parts: Iterator[Part]) -> tuple[Part, ...]:
    """Texts that stand side by side as one: the grammar takes {} for two words."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if (
            isinstance(part, Text)
            and isinstance(last, Text)
            and part.quoted == last.quoted
            and part.at == last.at + len(last.text)
            and last.text.isascii()
        ):
            found[-1] = Text(last.text + part.text, last.at, part.quoted)
        else:
            found.append(part)
    return tuple(found)


class WordReader:
    """Reads words of one text; `statements` reads what stands in a substitution."""

    def __init__(self, data: bytes, origin: Origin, statements: Callable[[list[Node]], tuple[Statement, ...]]) -> None:
        self._data = data
        self._at = origin.at
        self._cuts = origin.cuts
        self._statements = statements
        self._depth = 0

    def word(self, node: Node) -> Word:
        """One word."""
        start, end = node.start_byte, node.end_byte
        if node.type in ("word", "number", "variable_name") and not node.named_child_count:
            text = self._text(start, end)
            if "\\" not in text and not self._cuts(start, end):  # most words
                at = self._at(start)
                return Word((Text(text, at, False),), at)
        return Word(_merged(self.parts(node, False)), self._at(node.start_byte))

    def document(self, node: Node) -> Word:
        """The body of a here-document that is expanded."""
        start, end = node.start_byte, node.end_byte
        return Word(tuple(self._covered(node.children, start, end, True, _ESCAPED_IN_DOCUMENT)), self._at(start))

    def raw(self, start: int, end: int) -> Word:
        """Text as it is."""
        return Word(tuple(self._exact(start, end)), self._at(start))

    def _exact(self, start: int, end: int) -> Iterator[Text]:
        """Quoted text as it is, in pieces that stand in the file as they are here."""
        for cut in self._cuts(start, end):
            yield Text(self._text(start, cut), self._at(start), True)
            start = cut
        yield Text(self._text(start, end), self._at(start), True)

    def parts(self, node: Node, quoted: bool) -> Iterator[Part]:
        """What the node consists of."""
        if self._depth > _MAX_DEPTH:
            return
        self._depth += 1
        yield from self._parts(node, quoted)
        self._depth -= 1

    def _parts(self, node: Node, quoted: bool) -> Iterator[Part]:
        kind, start, end = node.type, node.start_byte, node.end_byte
        if kind == "raw_string":
            yield from self._exact(start + 1, end - 1)
        elif kind == "ansi_c_string":
            yield from self._plain(start + 2, end - 1, True, _ESCAPED)
        elif kind == "string":
            closing = 1 if self._data[end - 1 : end] == b'"' and end - start > 1 else 0
            yield from self._covered(node.children[1:], start + 1, end - closing, True, _ESCAPED_IN_QUOTES, closing)
        elif kind in ("simple_expansion", "expansion", "command_substitution", "process_substitution"):
            yield from self._expansion(node, quoted)
        elif kind == "arithmetic_expansion":
            yield self.arithmetic(node, quoted)
        elif node.named_child_count:
            yield from self._covered(node.children, start, end, quoted, _ESCAPED)
        else:
            yield from self._plain(start, end, quoted, _ESCAPED)

    def _covered(
        self, nodes: list[Node], start: int, end: int, quoted: bool, escapes: re.Pattern[str], closing: int = 0
    ) -> Iterator[Part]:
        position = start
        for node in nodes[: len(nodes) - closing]:
            if not node.is_named or node.type in ("string_content", "heredoc_content"):
                continue
            begin = node.start_byte
            while begin < node.end_byte and self._data[begin] in b" \t\n" and node.type != "raw_string":
                begin += 1
            if begin > position:
                yield from self._plain(position, begin, quoted, escapes)
            yield from self.parts(node, quoted)
            position = node.end_byte
        if end > position:
            yield from self._plain(position, end, quoted, escapes)

    def _plain(self, start: int, end: int, quoted: bool, escapes: re.Pattern[str]) -> Iterator[Text]:
        for cut in self._cuts(start, end):
            before = self._data[start:cut]
            if (len(before) - len(before.rstrip(b"\\"))) % 2:  # \' of '\'\\'\'', whose halves come from two quotes
                continue
            yield from self._escaped(start, cut, quoted, escapes)
            start = cut
        yield from self._escaped(start, end, quoted, escapes)

    def _escaped(self, start: int, end: int, quoted: bool, escapes: re.Pattern[str]) -> Iterator[Text]:
        text = self._text(start, end)
        if "\\" not in text:
            yield Text(text, self._at(start), quoted)
            return
        position, ascii_only = 0, text.isascii()
        for found in escapes.finditer(text):
            if found.start() > position:
                yield Text(text[position : found.start()], self._of(start, text, position, ascii_only), quoted)
            if found[1] != "\n":
                yield Text(found[1], self._of(start, text, found.start(1), ascii_only), True)
            position = found.end()
        if position < len(text):
            yield Text(text[position:], self._of(start, text, position, ascii_only), quoted)

    def _of(self, start: int, text: str, position: int, ascii_only: bool) -> int:
        return self._at(start + (position if ascii_only else len(text[:position].encode("utf-8", "surrogateescape"))))

    def _text(self, start: int, end: int) -> str:
        return self._data[start:end].decode("utf-8", "surrogateescape")

    def _expansion(self, node: Node, quoted: bool) -> Iterator[Part]:
        start = node.start_byte
        while self._data[start] in b" \t\n":
            start += 1
        at = self._at(start)
        if _ARITHMETIC.fullmatch(self._data, start, node.end_byte):
            found = _NAMES.finditer(self._data, start, node.end_byte)
            yield Arithmetic(tuple((one[0].decode(), self._at(one.start())) for one in found), (), (), at, quoted)
        elif node.type in ("command_substitution", "process_substitution"):
            opening = self._data[start : start + 1]
            yield Substitution(self._statements([node]), at, quoted, node.type[0] == "p", opening == b">")
        elif node.type == "simple_expansion":
            yield Parameter(self._text(start + 1, node.end_byte), at, quoted)
        else:
            yield self._parameter(node, at, quoted)

    def _parameter(self, node: Node, at: int, quoted: bool) -> Parameter:
        name, index, operator, argument_at = "", "", "", 0
        children = node.children
        for position, child in enumerate(children):
            kind = child.type
            if not name and kind in _LENGTH_OR_INDIRECT:
                operator = kind
            elif not name and kind in ("variable_name", "special_variable_name"):
                name = self._text(child.start_byte, child.end_byte)
            elif not name and kind == "subscript":
                text = self._text(child.start_byte, child.end_byte)
                name, _, index = text.rstrip("]").partition("[")
            elif name and not operator and kind != "}":
                operator, argument_at = kind, position + 1
                break
        argument = None
        if argument_at and argument_at < len(children) - 1:
            start, end = children[argument_at].start_byte, children[-1].start_byte
            inner = self._covered(children[argument_at:-1], start, end, quoted, _ESCAPED)
            argument = Word(tuple(inner), self._at(start))
        return Parameter(name, at, quoted, operator, argument, index)

    def arithmetic(self, node: Node, quoted: bool) -> Arithmetic:
        """$((…)) or ((…)): names that are followed by an assignment are set, all others read."""
        reads: list[tuple[str, int]] = []
        sets: list[str] = []
        commands: list[Substitution] = []
        waiting = list(node.children)
        while waiting:
            child = waiting.pop()
            if child.type in ("command_substitution", "process_substitution"):
                commands.append(Substitution(self._statements([child]), self._at(child.start_byte), True))
            elif child.type in ("variable_name", "word") and (
                found := _NAME.fullmatch(self._text(child.start_byte, child.end_byte))
            ):
                following = self._data[child.end_byte : child.end_byte + 4].lstrip()
                before = child.prev_sibling.type if child.prev_sibling is not None else ""
                counts = following.startswith((b"++", b"--", b"+=", b"-=")) or before in ("++", "--")
                replaces = following.startswith(b"=") and not following.startswith(b"==")
                if counts or replaces:
                    sets.append(found[0])
                if not replaces:
                    reads.append((found[0], self._at(child.start_byte)))
            else:
                waiting.extend(child.children)
        reads.reverse()
        return Arithmetic(tuple(reads), tuple(sets), tuple(commands), self._at(node.start_byte), quoted)


def without_tabs(document: Word) -> Word:
    """A here-document as <<- gives it: without the tabs at the beginnings of its lines."""
    parts: list[Part] = []
    begins_line = True
    for part in document.parts:
        if not isinstance(part, Text):
            parts.append(part)
            begins_line = False
            continue
        at = part.at
        for line in _LINE.findall(part.text):
            kept = line.lstrip("\t") if begins_line else line
            if kept:
                parts.append(Text(kept, at + len(line) - len(kept), part.quoted))
            at += len(line.encode("utf-8", "surrogateescape"))
            begins_line = line.endswith("\n")
    return Word(tuple(parts), document.at)
