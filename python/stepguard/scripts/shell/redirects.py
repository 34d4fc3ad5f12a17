# SPDX-License-Identifier: Apache-2.0
"""tree-sitter's nodes of redirects and here-documents → tree.py's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from stepguard.scripts.origin import Origin
from stepguard.scripts.shell.oddities import HERE_STRING
from stepguard.scripts.shell.tree import Redirect
from stepguard.scripts.shell.words import WordReader, without_tabs

if TYPE_CHECKING:
    from tree_sitter import Node

_HERE_STRING = HERE_STRING.decode()
_BEHIND_END = (b"", b"\n", b")", b"`")


class RedirectReader:
    """Reads those of one text. `documents`: where here-documents stand, (start, end); `leave_out` is told where one
    stands that does not end."""

    def __init__(self, data: bytes, origin: Origin, words: WordReader, leave_out: Callable[[int], None]) -> None:
        self._data = data
        self._at = origin.at
        self._words = words
        self._leave_out = leave_out
        self.documents: list[tuple[int, int]] = []

    def read(self, node: Node) -> Iterator[Redirect]:
        """Those of a node; what goes to descriptor 2 is left out."""
        if node.type == "heredoc_redirect":
            quoted = strips = False
            word = b""
            for child in node.children:
                if child.type == "<<-":
                    strips = True
                elif child.type == "heredoc_start":
                    word = self._data[child.start_byte : child.end_byte]
                    quoted = any(mark in word for mark in b"'\"\\")
                elif child.type == "heredoc_end" and not self._ends(child, word, strips):
                    self._leave_out(node.start_byte)
                elif child.type == "heredoc_body":
                    self.documents.append((self._at(child.start_byte), self._at(child.end_byte - 1) + 1))
                    body = self._words.raw(child.start_byte, child.end_byte) if quoted else self._words.document(child)
                    yield Redirect("<<", without_tabs(body) if strips else body)
            return
        if node.type == "herestring_redirect":
            yield Redirect("<<<", self._words.word(node.children[-1]))
            return
        operator, descriptor = "", ""
        for child in node.children:
            if child.type == "file_descriptor":
                descriptor = self._data[child.start_byte : child.end_byte].decode("ascii", "replace")
            elif not child.is_named:
                operator = child.type
            elif operator == "<" and descriptor == _HERE_STRING:
                yield Redirect("<<<", self._words.word(child))
                descriptor = "-"
            elif operator == "<" and descriptor not in ("", "0", "1", "-"):
                yield Redirect(f"{descriptor}<", self._words.word(child))
                descriptor = "-"
            elif operator in (">", ">>", ">|") and descriptor not in ("", "0", "1", "2", "-"):
                yield Redirect(f"{descriptor}{operator.rstrip('|')}", self._words.word(child))
                descriptor = "-"
            elif operator == ">&" and descriptor in ("", "1"):
                yield Redirect(">&", self._words.word(child))
                descriptor = "-"
            elif operator and descriptor in ("", "0", "1") and operator != ">&":
                yield Redirect({">|": ">", "&>": ">", "&>>": ">>"}.get(operator, operator), self._words.word(child))
                # tree-sitter takes words behind the file for more files.
                descriptor = "-"

    def _ends(self, node: Node, word: bytes, strips: bool) -> bool:
        """Whether the line ends a here-document, as a shell sees it: the grammar takes `  EOF` for an end, too."""
        start, end = node.start_byte, node.end_byte
        before = self._data[self._data.rfind(b"\n", 0, start) + 1 : start]
        is_word = self._data[start:end] == word.translate(None, b"'\"\\")
        return is_word and not before.strip(b"\t" if strips else b"") and self._data[end : end + 1] in _BEHIND_END
