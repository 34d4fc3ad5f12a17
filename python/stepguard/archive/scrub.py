# SPDX-License-Identifier: Apache-2.0
"""Redaction of what stands in the JSON of a record: names, comments, paths and command lines hold secrets too."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stepguard.archive.fold import Folded
from stepguard.records.health import HealthChange, HealthEvent, HealthFinding, HealthRecord
from stepguard.records.manifest import FindingRecord, KeptFile, Manifest, NodeRecord, ScriptFinding, StepRecord

if TYPE_CHECKING:
    from stepguard.archive.redaction import Redactor

# Words of stepguard's own, of the cluster's and of the archive's paths; every other text is redacted.
_NOT_TEXT: dict[type, frozenset[str]] = {
    Manifest: frozenset({"cluster", "job_id", "kind", "state", "outcome", "lead_node"}),
    NodeRecord: frozenset({"node", "job_id", "state", "boot_id"}),
    StepRecord: frozenset({"step_id", "state"}),
    FindingRecord: frozenset({"node", "step_id"}),
    ScriptFinding: frozenset({"rule", "kind", "severity"}),
    KeptFile: frozenset({"name", "what", "sha256"}),
    HealthRecord: frozenset({"status", "action", "gpus", "not_known"}),
    HealthChange: frozenset({"kind", "device", "what", "before", "after", "status"}),
    HealthFinding: frozenset({"status", "device", "what", "action"}),
    HealthEvent: frozenset({"source", "code", "device", "fault_class", "action", "status"}),
}
_COMMAND_LINES = ("argv", "arguments")


def scrub(folded: Folded, redactor: Redactor, known: Sequence[bytes]) -> None:
    """Redacts all texts of a node's part and a manifest in place. The steps of both are the same objects."""

    @functools.cache
    def clean(text: str) -> str:
        redacted, _ = redactor.text(text.encode(errors="surrogateescape"), known)
        return redacted.decode(errors="surrogateescape")

    @functools.cache
    def clean_words(words: Sequence[str]) -> list[str]:
        return redactor.words(words, known)

    def cleaned(value: Any) -> Any:
        if isinstance(value, str):
            return clean(value) if value else value
        if isinstance(value, list):
            return [cleaned(one) for one in value]
        if isinstance(value, dict):
            return {name: cleaned(one) for name, one in value.items()}
        if dataclasses.is_dataclass(value):
            clean_record(value)
        return value

    def clean_record(record: Any) -> None:
        kept = _NOT_TEXT.get(type(record), frozenset())
        for field in dataclasses.fields(record):
            value = getattr(record, field.name)
            if field.name in _COMMAND_LINES:
                setattr(record, field.name, clean_words(tuple(value)))
            elif field.name not in kept:
                setattr(record, field.name, cleaned(value))

    clean_record(folded.node)
    if folded.manifest is not None:
        clean_record(folded.manifest)
