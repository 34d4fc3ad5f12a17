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
        return redactor.words(words, known)

    for step in folded.node.steps:
        if step.argv:
            step.argv = clean_words(tuple(step.argv))
    for finding in folded.node.findings:
        finding.text = clean(finding.text)
    if folded.manifest is not None:
        for name in _IN_MANIFEST:
            setattr(folded.manifest, name, clean(getattr(folded.manifest, name)))
