# SPDX-License-Identifier: Apache-2.0
"""What is asked of Python's ast."""

from __future__ import annotations

import ast


def returns_of(functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef]) -> dict[str, list[ast.expr]]:
    """What each function returns or yields."""
    found: dict[str, list[ast.expr]] = {}
    for name, function in functions.items():
        found[name] = [
            node.value
            for node in ast.walk(function)
            if isinstance(node, (ast.Return, ast.Yield)) and node.value is not None
        ]
    return found


def name_of(node: ast.expr) -> str | None:
    """The name, or the last one of a.b.c; None where that is none."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def string_of(node: ast.expr) -> str | None:
    """A text that stands there as it is; None for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def is_environ(node: ast.expr) -> bool:
    """Whether that is the environment, by its name."""
    return name_of(node) in ("environ", "env", "environb")


def is_text(node: ast.BinOp) -> bool:
    """Whether texts are put together here."""
    sides = (node.left, node.right)
    return any(isinstance(side, ast.JoinedStr) or string_of(side) is not None for side in sides) or any(
        isinstance(side, ast.BinOp) and is_text(side) for side in sides
    )


def is_list(node: ast.expr) -> bool:
    """Whether lists are put together here."""
    if isinstance(node, ast.BinOp):
        return is_list(node.left) or is_list(node.right)
    return isinstance(node, (ast.List, ast.Tuple))


def items_of(node: ast.expr) -> list[ast.expr]:
    """The items of lists that are put together."""
    if isinstance(node, ast.BinOp):
        return [*items_of(node.left), *items_of(node.right)]
    return list(node.elts) if isinstance(node, (ast.List, ast.Tuple)) else [node]
