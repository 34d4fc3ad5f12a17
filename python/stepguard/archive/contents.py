# SPDX-License-Identifier: Apache-2.0
"""The files of a record that are not JSON of our own: redacted, in the form in which they are stored, and with what was
kept of them.

script         as it was submitted, not compressed: one copy a user is stored, and XDMoD and people read it
env.json       a JSON object, name → value; undecodable bytes as lone surrogates
stdout.zst     the head, a line that says how much is left out, the tail
resumes.jsonl  the journal of guarded steps, which their owner could write anything into: JSON objects only
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from stepguard.archive.layout import ENVIRONMENT, RESUMES, SCRIPT
from stepguard.records import wire
from stepguard.records.manifest import KeptFile

if TYPE_CHECKING:
    from stepguard.archive.redaction import Redactor

Known = Sequence[bytes]
"""The secrets of the job's environment, which are looked for everywhere (Redactor.secrets)."""
RESUMES_MAX_BYTES = 1 << 20
_ZSTD_LEVEL = 3
# How far a cut may move to the next end of a line, for half a secret is not recognized as one.
_LINE_MAX_BYTES = 4096
_LINE_END = re.compile(rb"[\r\n]")


class Content(NamedTuple):
    """A file of the record; `stored` is None where there is nothing to store, and `kept` says why. `is_shared`: for
    another file of the record is the same."""

    kept: KeptFile
    stored: bytes | None = None
    is_shared: bool = False


def script(fields: Mapping[str, bytes], redactor: Redactor, known: Known) -> Content:
    """The batch script out of the message `batch`."""
    content = fields.get("script")
    size_bytes = wire.number(fields, "script_size")
    if content is None:
        return Content(KeptFile(what="memory", size_bytes=size_bytes, why=_why_not(fields)))
    kept = _of_memory(len(content), len(content) if size_bytes is None else size_bytes)
    clean, kept.redacted = redactor.text(content, known, cut_end=bool(kept.why), commands=True)
    return stored(kept, SCRIPT, clean)


def environment(fields: Mapping[str, bytes], redactor: Redactor) -> Content:
    """The job's own environment out of the message `batch`."""
    content = fields.get("environment")
    size_bytes = wire.number(fields, "environment_size")
    if content is None:
        return Content(KeptFile(what="memory", size_bytes=size_bytes, why=_why_not(fields)))
    kept = _of_memory(len(content), len(content) if size_bytes is None else size_bytes)
    values, kept.redacted = redactor.environment(wire.environment(content))
    return stored(kept, ENVIRONMENT, json.dumps(dict(values), indent=0).encode("ascii") + b"\n")


def _why_not(fields: Mapping[str, bytes]) -> str:
    """The agent says what it `dropped`."""
    return "the spool had no room for it" if "dropped" in fields else "the batch step could not read it"


def output(name: str, raw: bytes | None, meta: Mapping[str, Any], redactor: Redactor, known: Known) -> Content:
    """stdout or stderr, out of what was read of it."""
    kept = _of_meta(meta)
    if raw is None:
        return Content(kept)
    head, tail = raw[: kept.head_bytes], raw[kept.head_bytes :]
    size_bytes = kept.size_bytes or 0
    is_cut = size_bytes > len(raw)
    if is_cut:
        head, tail = _cut_at_lines(head, tail)
    kept.head_bytes, kept.tail_bytes = len(head), len(tail)
    left_out = max(size_bytes - len(head) - len(tail), 0)
    head, in_head = redactor.text(head, known, cut_end=is_cut)
    tail, in_tail = redactor.text(tail, known, cut_start=is_cut)
    kept.redacted = in_head + in_tail
    if left_out:
        line_end = b"" if not head or head.endswith((b"\n", b"\r")) else b"\n"
        head += line_end + b"[stepguard: %d bytes left out]\n" % left_out
        kept.why = kept.why or f"{left_out} bytes in the middle are left out"
    return stored(kept, f"{name}.zst", _compressed(head + tail))


def resumes(
    raw: bytes | None, meta: Mapping[str, Any], redactor: Redactor, known: Known
) -> tuple[Content, list[dict[str, Any]]]:
    """The journal of guarded steps, and its records."""
    kept = _of_meta(meta)
    if raw is None:
        return Content(kept), []
    if len(raw) > RESUMES_MAX_BYTES or (kept.size_bytes or 0) > len(raw):
        kept.head_bytes = kept.tail_bytes = 0
        kept.why = f"a journal of more than {RESUMES_MAX_BYTES} bytes is not ours"
        return Content(kept), []
    redacted, kept.redacted = redactor.text(raw, known)
    lines, records = [], []
    for line in redacted.splitlines():
        if (record := _object(line)) is not None:
            lines.append(json.dumps(record, separators=(",", ":")).encode("ascii") + b"\n")
            records.append(record)
    if len(lines) < len(redacted.splitlines()):
        kept.why = f"{len(redacted.splitlines()) - len(lines)} lines that are no JSON objects are left out"
    return stored(kept, RESUMES, b"".join(lines)), records


def count_resumes(events: Sequence[Mapping[str, Any]], restart_count: int) -> int:
    """How often steps were started again in one attempt of the job, by their journal."""
    starts = Counter(
        str(event.get("step_key"))
        for event in events
        if event.get("event") == "start" and event.get("restart_count") == restart_count
    )
    return sum(starts.values()) - len(starts)


def same_as(source: str, other: str) -> Content:
    """A file that is the same as another one of the record."""
    return Content(KeptFile(source=source, what="regular", why=f"it is the same file as {other}"), is_shared=True)


def _of_memory(kept_bytes: int, size_bytes: int) -> KeptFile:
    why = f"{kept_bytes} of its {size_bytes} bytes are kept" if size_bytes > kept_bytes else ""
    return KeptFile(what="memory", size_bytes=size_bytes, head_bytes=kept_bytes, why=why)


def _of_meta(meta: Mapping[str, Any]) -> KeptFile:
    """What NAME.meta says, see records/spool.py."""
    numbers = {name: meta.get(name) for name in ("size_bytes", "head_bytes", "tail_bytes")}
    size_bytes, head_bytes, tail_bytes = (value if isinstance(value, int) else None for value in numbers.values())
    texts = (str(meta.get(name) or "") for name in ("source", "what", "why"))
    source, what, why = texts
    if what not in ("regular", "unreadable", ""):  # of a link, or of nothing: not the output's
        size_bytes = None
    return KeptFile("", source, what, size_bytes, head_bytes or 0, tail_bytes or 0, why=why)


def stored(kept: KeptFile, name: str, content: bytes) -> Content:
    """A file of the record with its size and digest."""
    kept.name, kept.stored_bytes, kept.sha256 = name, len(content), hashlib.sha256(content).hexdigest()
    return Content(kept, content)


def _compressed(content: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True).compress(content)


def _cut_at_lines(head: bytes, tail: bytes) -> tuple[bytes, bytes]:
    """Head and tail without the halves of lines at the cut, unless these are longer than a line should be."""
    if ends := [match.end() for match in _LINE_END.finditer(head, max(len(head) - _LINE_MAX_BYTES, 0))]:
        head = head[: ends[-1]]
    if begin := _LINE_END.search(tail, 0, _LINE_MAX_BYTES):
        tail = tail[begin.end() :]
    return head, tail


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
