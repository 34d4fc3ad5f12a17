# SPDX-License-Identifier: Apache-2.0
"""What is asked of Python's ast."""

from __future__ import annotations

import ast


def name_of(node: ast.expr) -> str | None:
    """The name, or the last one of a.b.c; None where that is none."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def string_of(node: ast.expr) -> str | None:
    """A text that stands there as it is; None for anything else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
