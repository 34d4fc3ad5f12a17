# SPDX-License-Identifier: Apache-2.0
"""tree-sitter's nodes of statements → tree.py's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from stepguard.scripts.origin import Origin
from stepguard.scripts.shell.redirects import RedirectReader
from stepguard.scripts.shell.tree import (
    Assignment,
    Calculation,
    Case,
    Chain,
    Command,
    For,
    Function,
    Group,
    If,
    Loop,
    Pipeline,
    Redirect,
    Redirected,
    Statement,
    Test,
    Word,
)
from stepguard.scripts.shell.words import WordReader

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_DEPTH = 40  # of nested statements and substitutions; each takes a few frames of Python's stack
_BODIES = (
    "compound_statement",
    "subshell",
    "test_command",
    "if_statement",
    "for_statement",
    "c_style_for_statement",
    "while_statement",
    "case_statement",
)
_TERMINALS = frozenset((";", "&", "\n", ";;", "comment", "(", ")", "{", "}", "then", "do", "done", "fi"))

# Words that only end or go on with a compound command; where one stands for itself, a shell goes no further.
_STRAY = re.compile(rb"(?:done|fi|esac|then|do|else|elif|\})(?=[\s;)]|$)")


class Builder:
    """Reads the nodes of one text.

    `left_out_at`: where the first thing stands that was left out, else -1; `documents`: where here-documents stand,
    (start, end).
    """

    def __init__(self, data: bytes, origin: Origin) -> None:
        self._data = data
        self._at = origin.at
        self._words = WordReader(data, origin, self.statements)
        self._depth = 0
        self.left_out_at = -1
        self._redirects = RedirectReader(data, origin, self._words, self._leave_out)
        self.documents = self._redirects.documents

    def statements(self, nodes: list[Node]) -> tuple[Statement, ...]:
        """The statements among the nodes."""
        if self._depth >= _MAX_DEPTH:
            self._leave_out(nodes[0].start_byte if nodes else 0)
            return ()
        self._depth += 1
        try:
            found: list[Statement] = []
            for index, node in enumerate(nodes):
                made = tuple(self._statement(node))
                beside = made and index + 1 < len(nodes) and nodes[index + 1].type == "&"
                found += (Group(made, True),) if beside else made
            return tuple(found)
        finally:
            self._depth -= 1

    def _leave_out(self, position: int) -> None:
        if self.left_out_at < 0:
            self.left_out_at = self._at(position)

    def _statement(self, node: Node) -> Iterator[Statement]:
        if not node.is_named:
            return
        build = _BUILDERS.get(node.type)
        if build is not None:
            yield from build(self, node)
        elif node.type not in _TERMINALS:
            # What stands in an ERROR: statements among words.
            yield from self.statements(node.children)

    def _one(self, node: Node) -> Statement:
        """A node as one statement."""
        found = tuple(self._statement(node))
        return found[0] if len(found) == 1 else Group(found, False)

    # -- simple commands ----------------------------------------------------------------------------------------------

    def command(self, node: Node) -> Iterator[Statement]:
        words: list[Word] = []
        assignments: list[Assignment] = []
        redirects: list[Redirect] = []
        at = end = -1
        for child in node.children:
            kind = child.type
            if kind == "variable_assignment":
                assignments.append(self._assignment(child))
            elif kind.endswith("_redirect"):
                redirects.extend(self._redirects.read(child))
            elif kind != "comment":
                word = self._words.word(child)
                if child.start_byte == end and words:
                    before = words.pop()
                    word = Word(before.parts + word.parts, before.at)
                words.append(word)
                at = child.start_byte if at < 0 else at
                end = child.end_byte
        if _STRAY.match(self._data, node.start_byte):
            self._leave_out(node.start_byte)
        made = Command(tuple(words), tuple(assignments), self._at(at if at >= 0 else node.start_byte))
        yield Redirected(made, tuple(redirects)) if redirects else made

    def assignment(self, node: Node) -> Iterator[Statement]:
        nodes = node.children if node.type == "variable_assignments" else [node]
        made = tuple(self._assignment(child) for child in nodes if child.type == "variable_assignment")
        yield Command((), made, self._at(node.start_byte))

    def declaration(self, node: Node) -> Iterator[Statement]:
        words: list[Word] = []
        assignments: list[Assignment] = []
        for child in node.children[1:]:
            if child.type == "variable_assignment":
                assignments.append(self._assignment(child))
            elif child.type != "comment":
                words.append(self._words.word(child))
        yield Command(tuple(words), tuple(assignments), self._at(node.start_byte), node.children[0].type)

    def unset(self, node: Node) -> Iterator[Statement]:
        words = tuple(self._words.word(child) for child in node.children)
        yield Command(words, (), self._at(node.start_byte))

    def _assignment(self, node: Node) -> Assignment:
        target, sign = node.children[0], node.children[1] if len(node.children) > 1 else node.children[0]
        name, _, index = self._data[target.start_byte : target.end_byte].decode("utf-8", "replace").partition("[")
        value = node.children[2] if len(node.children) > 2 else None
        array = None
        word = Word((), self._at(node.start_byte))
        if value is not None and value.type == "array":
            array = tuple(self._words.word(child) for child in value.named_children if child.type != "comment")
        elif value is not None:
            word = self._words.word(value)
        return Assignment(name, self._at(node.start_byte), word, array, sign.type == "+=", index.rstrip("]"))

    def redirected(self, node: Node) -> Iterator[Statement]:
        redirects: list[Redirect] = []
        body: list[Node] = []
        extra: list[Node] = []
        after: list[tuple[str, Statement]] = []
        for child in node.children:
            if child.type == "heredoc_redirect":
                redirects.extend(self._redirects.read(child))
                self._behind_document(child, redirects, extra, after)
            elif child.type.endswith("_redirect"):
                redirects.extend(self._redirects.read(child))
            else:
                body.append(child)
        made: Statement = self._one(body[0]) if body else Command((), (), self._at(node.start_byte))
        if extra and isinstance(made, Command):
            made = replace(made, words=made.words + tuple(map(self._words.word, extra)))
        made = Redirected(made, tuple(redirects))
        for operator, statement in after:
            if operator == "|":
                stages = statement.stages if isinstance(statement, Pipeline) else (statement,)
                made = Pipeline((made, *stages))
            else:
                made = Chain(made, ((operator, statement),))
        yield made

    def _behind_document(
        self, node: Node, redirects: list[Redirect], extra: list[Node], after: list[tuple[str, Statement]]
    ) -> None:
        """What stands on the line of <<EOF behind it, which the grammar takes for a part of it."""
        operator = ""
        for child in node.children:
            if child.type == "pipeline":
                stages = self.statements(child.children)
                after.append(("|", Pipeline(stages)))
            elif child.type in ("&&", "||"):
                operator = child.type
            elif operator and child.type in _BUILDERS:
                after.append((operator, self._one(child)))
                operator = ""
            elif child.type.endswith("_redirect"):
                redirects.extend(self._redirects.read(child))
            elif child.is_named and not child.type.startswith("heredoc"):
                extra.append(child)

    # -- compound commands --------------------------------------------------------------------------------------------

    def function(self, node: Node) -> Iterator[Statement]:
        name = next(child for child in node.children if child.type == "word")
        text = self._data[name.start_byte : name.end_byte].decode("utf-8", "replace")
        redirects = [
            made for child in node.children if child.type.endswith("_redirect") for made in self._redirects.read(child)
        ]
        body = self.statements([child for child in node.children[1:] if child is not name and child.type in _BODIES])
        if redirects:
            body = (Redirected(Group(body, False), tuple(redirects)),)
        yield Function(text, body, self._at(node.start_byte))

    def pipeline(self, node: Node) -> Iterator[Statement]:
        yield Pipeline(tuple(self._one(child) for child in node.named_children if child.type != "comment"))

    def chain(self, node: Node) -> Iterator[Statement]:
        rest: list[tuple[str, Statement]] = []
        while node.type == "list":
            parts = [child for child in node.children if child.type != "comment"]
            if len(parts) < 3:
                break
            rest.append((parts[1].type, self._one(parts[-1])))
            node = parts[0]
        first = self._one(node) if node.type != "list" else Group(self.statements(node.children), False)
        yield Chain(first, tuple(reversed(rest)))

    def branch(self, node: Node) -> Iterator[Statement]:
        branches = []
        otherwise: tuple[Statement, ...] = ()
        plain: list[Node] = []
        for child in node.children:
            if child.type == "elif_clause":
                branches.append(self._branch(child.children))
            elif child.type == "else_clause":
                otherwise = self.statements(child.children)
            else:
                plain.append(child)
        yield If((self._branch(plain), *branches), otherwise)

    def _branch(self, nodes: list[Node]) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
        then = next((index for index, child in enumerate(nodes) if child.type == "then"), len(nodes))
        return self.statements(nodes[:then]), self.statements(nodes[then:])

    def case(self, node: Node) -> Iterator[Statement]:
        bodies, words = [], []
        default = False
        for item in node.children:
            if item.type != "case_item":
                continue
            close = next((index for index, child in enumerate(item.children) if child.type == ")"), 0)
            patterns = [self._data[child.start_byte : child.end_byte] for child in item.children[:close]]
            default = default or b"*" in patterns
            words += [self._words.word(child) for child in item.children[:close] if child.is_named]
            bodies.append(self.statements(item.children[close + 1 :]))
        subject = self._words.word(node.children[1])
        yield Case(subject, tuple(words), tuple(bodies), default)

    def for_in(self, node: Node) -> Iterator[Statement]:
        name, words, given, body = "", [], False, ()
        for child in node.children:
            if child.type == "variable_name" and not name:
                name = self._data[child.start_byte : child.end_byte].decode("utf-8", "replace")
            elif child.type == "in":
                given = True
            elif child.type in ("do_group", "compound_statement"):
                body = self.statements(child.children)  # type: ignore[assignment]
            elif child.is_named and child.type != "comment":
                words.append(self._words.word(child))
        yield For(name, tuple(words) if given else None, body)

    def for_counting(self, node: Node) -> Iterator[Statement]:
        head = [child for child in node.children if child.type not in ("do_group", "compound_statement", "comment")]
        body = [child for child in node.children if child.type in ("do_group", "compound_statement")]
        arithmetic = self._words.arithmetic(_Nodes(head, node.start_byte), False)  # type: ignore[arg-type]
        yield Loop((Calculation(arithmetic),), self.statements(body))

    def loop(self, node: Node) -> Iterator[Statement]:
        do = next((index for index, child in enumerate(node.children) if child.type == "do_group"), None)
        if do is None:
            yield from self.statements(node.children[1:])
            return
        yield Loop(self.statements(node.children[1:do]), self.statements(node.children[do].children))

    def group(self, node: Node) -> Iterator[Statement]:
        if node.children and node.children[0].type == "((":
            yield Calculation(self._words.arithmetic(node, False))
        else:
            yield Group(self.statements(node.children[1:]), node.type == "subshell")

    def test(self, node: Node) -> Iterator[Statement]:
        if node.children and node.children[0].type == "((":
            yield Calculation(self._words.arithmetic(node, False))
            return
        words = tuple(self._words.word(child) for child in node.named_children)
        yield Test(words, b" =~ " in self._data[node.start_byte : node.end_byte])

    def substitution(self, node: Node) -> Iterator[Statement]:
        inner = node.children[1:-1]
        if len(inner) == 1 and inner[0].type == "file_redirect":  # $(< file)
            yield Redirected(Command((), (), self._at(inner[0].start_byte)), tuple(self._redirects.read(inner[0])))
        else:
            yield from self.statements(inner)

    def negated(self, node: Node) -> Iterator[Statement]:
        yield from self.statements(node.children[1:])


class _Nodes(NamedTuple):
    children: list[Node]
    start_byte: int


_BUILDERS = {
    "command": Builder.command,
    "variable_assignment": Builder.assignment,
    "variable_assignments": Builder.assignment,
    "declaration_command": Builder.declaration,
    "unset_command": Builder.unset,
    "redirected_statement": Builder.redirected,
    "function_definition": Builder.function,
    "pipeline": Builder.pipeline,
    "list": Builder.chain,
    "if_statement": Builder.branch,
    "case_statement": Builder.case,
    "for_statement": Builder.for_in,
    "c_style_for_statement": Builder.for_counting,
    "while_statement": Builder.loop,
    "compound_statement": Builder.group,
    "subshell": Builder.group,
    "test_command": Builder.test,
    "command_substitution": Builder.substitution,
    "process_substitution": Builder.substitution,
    "negated_command": Builder.negated,
}
