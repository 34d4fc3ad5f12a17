# SPDX-License-Identifier: Apache-2.0
"""One regular expression for many words, fast: Python's tries every alternative at each place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby


def alternation(words: Mapping[str, str]) -> str:
    """A pattern for any of `words` (none empty), each followed by the pattern it maps to. Of several that fit the
    longest is found. The first character of a word is looked at only once."""
    branches = []
    for first, group in groupby(sorted(words), key=lambda word: word[0]):
        rests = [re.escape(word[1:]) + words[word] for word in sorted(group, key=len, reverse=True)]
        branches.append(re.escape(first) + (rests[0] if len(rests) == 1 else f"(?:{'|'.join(rests)})"))
    return f"(?:{'|'.join(branches)})"
