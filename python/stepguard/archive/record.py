# SPDX-License-Identifier: Apache-2.0
"""One attempt from the spool into the archive. Done twice, or cut short anywhere and done again, it gives the same.

While the attempt runs, its lead node writes script, environment and a manifest that says so. When it is over, each node
writes its part, the lead the rest; the manifest goes last.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepguard.archive import contents, index, late, place
from stepguard.archive.contents import Content
from stepguard.archive.fold import Folded, fold
from stepguard.archive.index_bounds import Tell, say_nothing
from stepguard.archive.index_lines import entry_of
from stepguard.archive.layout import FINDINGS, MANIFEST, NODES, SCRIPT
from stepguard.archive.local_cluster import Here
from stepguard.archive.outcome import outcome_of
from stepguard.archive.scrub import scrub
from stepguard.archive.sealing import sealed
from stepguard.archive.spooled import Spooled
from stepguard.archive.store import Directory, Writer, write_script
from stepguard.errors import reason
from stepguard.records import wire
from stepguard.records.manifest import KeptFile, Manifest, Missing, to_json
from stepguard.records.spool import AttemptKey

if TYPE_CHECKING:
    from stepguard.archive.ownership import Ownership
    from stepguard.archive.redaction import Redactor
    from stepguard.archive.script_check import ScriptCheck

_OUTPUTS = ("stdout", "stderr")
_RESUMES = "resumes"
# Of the whole file system, so that the next try may do better. Anything else that keeps a line out of a user's part of
# the index (a quota, a lease) may be that user's doing, and must not keep the record in the spool, which all share.
_AGAIN = (errno.ENOSPC, errno.EROFS, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOTCONN)


class Prepared(NamedTuple):
    """All that is to be written of an attempt; `contents` by the names of its files in the manifest. `tells_names`:
    a hook told the names of node and cluster."""

    key: AttemptKey
    folded: Folded
    contents: Mapping[str, Content]
    over: bool
    tells_names: bool

    @property
    def uid(self) -> int:
        """Whom the record belongs to; root where nothing that root sent told it."""
        return self.folded.uid or 0


def prepare(
    key: AttemptKey, spool: Spooled, redactor: Redactor, here: Here, script_check: ScriptCheck | None = None
) -> Prepared:
    """Folds and redacts, and has the redacted script checked."""
    folded = fold(spool.messages, key, here.node, spool.is_complete)
    folded.node.missing += spool.damaged
    tells_names = bool(folded.cluster)
    folded = folded._replace(cluster=folded.cluster or here.cluster)
    batch = next((message.fields for message in spool.messages if message.kind == "batch"), {})
    known = redactor.secrets(wire.environment(batch.get("environment", b"")), batch.get("script", b""))
    manifest = folded.manifest
    found: dict[str, Content] = {}
    if manifest is not None:
        manifest.cluster = folded.cluster
        manifest.missing += spool.damaged
        found = _contents(manifest, spool, batch, redactor, known)
        manifest.files = {name: content.kept for name, content in found.items()}
        if script_check is not None and "script" in found:
            script_check.add_findings(manifest, found["script"].stored)
        told = folded.told._replace(outputs=_raw_outputs(spool))
        manifest.outcome, manifest.outcome_why = outcome_of(manifest, told)
    scrub(folded, redactor, known)
    return Prepared(key, folded, found, spool.is_complete, tells_names)


def write(prepared: Prepared, archive: Path, ownership: Ownership, tell: Tell = say_nothing) -> None:
    """Puts it into the archive, synced. Raises OSError. That its line in the index cannot be written is only told."""
    folded = prepared.folded
    if not prepared.over and folded.manifest is None:
        return
    node = folded.node.node
    attempt = place.Attempt(prepared.key, folded.uid, folded.since_s, folded.begins, leads=folded.manifest is not None)
    writer = Writer(node, ownership)
    with Directory.top(archive, writer) as top, top.made(folded.cluster) as cluster:
        record, path = place.record_directory(cluster, attempt)
        with record:
            if prepared.over:
                _write_node(record, prepared)
            manifest = _write_lead(cluster, record, prepared)
        if writer.kept_from:
            tell(
                f"job {prepared.key} is in the archive, but the quota of uid {prepared.uid} on its file system is used "
                "up: files stay root's; `stepguard archive rebuild-index` gives them to their owner when there is room"
            )
        if manifest is not None:
            entry = entry_of(path, manifest, prepared.uid, len(folded.node.findings))
            try:
                index.append(cluster.path, node, entry, ownership, sync=prepared.over)
            except OSError as error:
                if error.errno in _AGAIN:
                    raise
                tell(
                    f"job {prepared.key} is in the archive, but not in index/{prepared.uid}: {reason(error)}; "
                    "`stepguard archive rebuild-index` puts it there"
                )


def _raw_outputs(spool: Spooled) -> list[bytes]:
    """slurmstepd writes to stderr first of all."""
    found = [spool.raw[name].content for name in reversed(_OUTPUTS) if name in spool.raw]
    return [content for content in found if content is not None]


def _contents(
    manifest: Manifest, spool: Spooled, batch: Mapping[str, bytes], redactor: Redactor, known: contents.Known
) -> dict[str, Content]:
    found: dict[str, Content] = {}
    if batch:
        found["script"] = contents.script(batch, redactor, known)
        found["environment"] = contents.environment(batch, redactor)
    if not spool.is_complete:
        return found
    for name in _OUTPUTS:
        if raw := spool.raw.get(name):
            found[name] = contents.output(name, raw.content, raw.meta, redactor, known)
    if raw := spool.raw.get(_RESUMES):
        found[_RESUMES], events = contents.resumes(raw.content, raw.meta, redactor, known)
        manifest.resumes = contents.count_resumes(events, manifest.attempt)
    if manifest.kind == "batch":
        _tell_outputs(found, manifest, spool)
    for name, content in found.items():
        if content.stored is None and not content.is_shared:
            manifest.missing.append(Missing(name, content.kept.why or f"{content.kept.what}, not read"))
    return found


def _tell_outputs(found: dict[str, Content], manifest: Manifest, spool: Spooled) -> None:
    """Says of an output that was not read why not: the agent reads both, or one where they are the same file."""
    if "stdout" in found and "stderr" not in found:
        found["stderr"] = contents.same_as(found["stdout"].kept.source, "stdout")
    for name in _OUTPUTS:
        if name not in found:
            manifest.missing.append(Missing(name, "nothing was read of it"))


def _write_node(record: Directory, prepared: Prepared) -> None:
    part = prepared.folded.node
    with record.made(NODES) as nodes:
        there = place.node_in(nodes, part.node)
        if there is not None and there.state != "running":
            part = late.complete_node(there, part)
            prepared.folded.node.findings = part.findings
        nodes.write(f"{part.node}.json", sealed(to_json(part)), prepared.uid)
        nodes.sync()


def _write_lead(cluster: Directory, record: Directory, prepared: Prepared) -> Manifest | None:
    """Writes what the lead node writes; its manifest, or None where nothing was to be written."""
    manifest = prepared.folded.manifest
    there = place.manifest_in(record)
    if manifest is None or (there is not None and _is_anothers(there, manifest)):
        return None
    stored = {name: content for name, content in prepared.contents.items() if content.stored is not None}
    if there is not None and there.state != "running" and there.lead_node == manifest.lead_node:
        if not prepared.over:
            return None  # something late, and more of it may come
        had = {name for name, file in there.files.items() if file.name}
        stored = {name: content for name, content in stored.items() if name not in had}
        manifest = late.complete_manifest(there, manifest)
    elif there is not None and there.state == "running" and prepared.over and not prepared.folded.begins:
        late.take_over(manifest, there)
    if findings := [*manifest.script_findings, *(prepared.folded.node.findings if prepared.over else [])]:
        stored["findings"] = _lines(findings)
        manifest.files["findings"] = stored["findings"].kept
    for content in stored.values():
        _write_content(cluster, record, content, prepared.uid)
    record.write(MANIFEST, sealed(to_json(manifest)), prepared.uid)
    record.sync()
    return manifest


def _is_anothers(there: Manifest, ours: Manifest) -> bool:
    """Whether another node leads. `sbatch --batch` may choose another than the first, which only that one knows."""
    return there.lead_node not in ("", ours.lead_node) and not (ours.kind == "batch" and there.kind != "batch")


def _write_content(cluster: Directory, record: Directory, content: Content, uid: int) -> None:
    assert content.stored is not None
    if content.kept.name == SCRIPT:
        write_script(cluster, record, SCRIPT, content.stored, content.kept.sha256, uid)
    else:
        record.write(content.kept.name, content.stored, uid)


def _lines(records: Iterable[object]) -> Content:
    lines = "".join(f"{to_json(record)}\n" for record in records)
    return contents.stored(KeptFile(what="memory"), FINDINGS, lines.encode("ascii"))
