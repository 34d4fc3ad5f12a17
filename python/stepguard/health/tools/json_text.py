# SPDX-License-Identifier: Apache-2.0
"""JSON that stands in a text, and what one may ask of it when nobody vouches for its shape."""

from __future__ import annotations

import json
import re

_BEGIN = re.compile(r"^[ \t]{0,8}([\[{])", re.MULTILINE)
# A tool prints few lines that begin as JSON does before its JSON.
_MAX_BEGINS = 20


def first_document(text: str) -> object | None:
    """The first object or array in the text that is whole; None where there is none.

    What comes before it, as the messages of the tool, and after it is not looked at. A part of one that is cut, or
    broken, is none.
    """
    decoder = json.JSONDecoder()
    read_to = 0
    for tried, match in enumerate(_BEGIN.finditer(text)):
        if tried == _MAX_BEGINS:
            break
        if match.start(1) < read_to:
            continue
        try:
            document: object = decoder.raw_decode(text, match.start(1))[0]
        except json.JSONDecodeError as error:
            read_to = error.pos
            continue
        except (ValueError, RecursionError):
            # A number of thousands of digits; deeper than any tool's.
            return None
        return document
    return None


def mapping(value: object) -> dict[str, object]:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    """The value where it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def text_of(value: object) -> str:
    """The value where it is a string, else ""."""
    return value if isinstance(value, str) else ""


def whole_number(value: object) -> int | None:
    """The value where it is a whole number, or a string of one; else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) else None
