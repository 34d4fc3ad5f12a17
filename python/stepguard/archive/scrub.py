# SPDX-License-Identifier: Apache-2.0
"""Redaction of what stands in the JSON of a record: names, comments and command lines hold secrets too."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepguard.archive.fold import Folded

if TYPE_CHECKING:
    from stepguard.archive.redaction import Redactor

_IN_MANIFEST = ("name", "comment", "work_dir", "constraints", "reservation")


def scrub(folded: Folded, redactor: Redactor, known: Sequence[bytes]) -> None:
    """Redacts a node's part and a manifest in place. The steps of both are the same objects."""

    @functools.cache
    def clean(text: str) -> str:
        redacted, _ = redactor.text(text.encode(errors="surrogateescape"), known)
        return redacted.decode(errors="surrogateescape")

    @functools.cache
    def clean_words(words: Sequence[str]) -> list[str]:
        # As one text, for `--password SECRET` is two words. A blank inside of a word must not end it.
        line = clean(" ".join(word.replace(" ", "\0") for word in words))
        cleaned = [word.replace("\0", " ") for word in line.split(" ")]
        return cleaned if len(cleaned) == len(words) else [clean(word) for word in words]

    for step in folded.node.steps:
        if step.argv:
            step.argv = clean_words(tuple(step.argv))
    for finding in folded.node.findings:
        finding.text = clean(finding.text)
    if folded.manifest is not None:
        for name in _IN_MANIFEST:
            setattr(folded.manifest, name, clean(getattr(folded.manifest, name)))
