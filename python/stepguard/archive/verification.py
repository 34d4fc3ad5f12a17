# SPDX-License-Identifier: Apache-2.0
"""Whether the archive still holds what was put into it, as it was put there: the files of each record against the
digests in its manifest, the manifest and the parts of nodes against their own (sealing), owners and modes.

A record belongs to the job's owner, who may overwrite its files, the digests among them: they tell of disks and
accidents, they prove nothing against the owner. Nor do they make it take long: no file is read further than it can be
large, and of faults of one kind in a record some are told.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stepguard.archive.layout import MANIFEST, NODES, ClusterLayout, RecordName, clusters, is_safe_name
from stepguard.archive.ownership import OWNER_ONLY, Ownership
from stepguard.archive.plain_files import MANIFEST_MAX_BYTES, digest, manifest_of, read_plain
from stepguard.archive.sealing import is_intact
from stepguard.archive.sizes import KEPT, KEPT_KIB, limit_bytes
from stepguard.records.manifest import KeptFile, Manifest, node_from
from stepguard.records.shape import MalformedRecord

# What a writer has not renamed yet is its own matter for so long.
_WRITING_S = 3600.0
# A manifest may name a million nodes.
_TOLD = 100
_CHANGED = "it is not as it was written: it is of another digest than it says"
_PUT_RIGHT = "`stepguard archive rebuild-index` puts it right"


@dataclass(frozen=True)
class Damage:
    """One file that is not as it should be, "" for the record's directory. `kind`: corrupt, missing, extra, unreadable,
    rights (others than should may read or write it)."""

    record: Path
    file: str
    kind: str
    text: str


@dataclass(frozen=True)
class Rules:
    """What is as it should be: so much is kept of outputs, and all has this group and these modes."""

    kept_kib: int = KEPT_KIB
    ownership: Ownership = OWNER_ONLY


def verify(archive: Path, rules: Rules) -> Iterator[tuple[Path, list[Damage]]]:
    """Each record of the archive, the latest day first, with what is wrong in it."""
    for cluster in clusters(archive):
        for _, directory in cluster.days():
            for name, path in cluster.records(directory):
                yield path, examine(cluster, name, path, rules)


def examine(cluster: ClusterLayout, name: RecordName, path: Path, rules: Rules) -> list[Damage]:
    """What is wrong in a record; nothing in one that is gone. What a writer may have changed meanwhile is looked at
    again."""
    first = _examine_once(cluster, name, path, rules)
    if not first:
        return []
    again = set(_examine_once(cluster, name, path, rules)) if path.is_dir() else set()
    return [damage for damage in first if damage in again]


def _examine_once(cluster: ClusterLayout, name: RecordName, path: Path, rules: Rules) -> list[Damage]:
    rights = list(_rights(path, rules.ownership))
    try:
        content = read_plain(path / MANIFEST, MANIFEST_MAX_BYTES + 1)
        manifest = manifest_of(content)
    except FileNotFoundError:
        return [*rights, Damage(path, MANIFEST, "missing", "its lead node has not written it yet, or never came back")]
    except MalformedRecord as error:
        return [*rights, Damage(path, MANIFEST, "corrupt", str(error))]
    except OSError as error:
        return [*rights, Damage(path, MANIFEST, "unreadable", error.strerror or str(error))]
    if not is_intact(content):
        rights.append(Damage(path, MANIFEST, "corrupt", _CHANGED))
    return [*rights, *_against(manifest, cluster, name, path, rules)]


def _against(manifest: Manifest, cluster: ClusterLayout, name: RecordName, path: Path, rules: Rules) -> list[Damage]:
    """What is wrong in a record, by what its manifest says."""
    if (manifest.job_id, manifest.attempt, manifest.cluster) != (
        str(name.key.job_id),
        name.key.attempt,
        cluster.root.name,
    ):
        return [Damage(path, MANIFEST, "corrupt", f"of {manifest.cluster} {manifest.job_id}.{manifest.attempt}")]
    files = {kept.name: kept for kept in manifest.files.values() if kept.sha256}
    found = [Damage(path, MANIFEST, "corrupt", f"not a file of a record: {name!r}") for name in files.keys() - KEPT]
    found = found[:_TOLD]
    found += [damage for name in sorted(files.keys() & KEPT) for damage in _kept(path, files[name], rules.kept_kib)]
    found += _nodes(path, manifest)
    return found + list(_extra(path, {MANIFEST, *files}))


def _kept(path: Path, kept: KeptFile, kept_kib: int) -> Iterator[Damage]:
    """What is wrong with a file that the manifest has a digest of."""
    at_most_bytes = limit_bytes(kept.name, kept_kib)
    try:
        sha256, size_bytes = digest(path / kept.name, at_most_bytes)
    except FileNotFoundError:
        yield Damage(path, kept.name, "missing", "the manifest has it")
        return
    except OSError as error:
        yield Damage(path, kept.name, "unreadable", error.strerror or str(error))
        return
    if not sha256:
        yield Damage(path, kept.name, "corrupt", f"{size_bytes} bytes: no more than {at_most_bytes} are ever written")
    elif sha256 != kept.sha256:
        yield Damage(
            path, kept.name, "corrupt", f"{size_bytes} bytes of another digest, {kept.stored_bytes} were written"
        )


def _nodes(path: Path, manifest: Manifest) -> list[Damage]:
    """What is wrong with the nodes' own parts; one that is not there yet is no damage while the attempt runs."""
    found = []
    parts = {part.name: part for part in _children(path / NODES)}
    missing = {one.what for one in manifest.missing}
    for node in manifest.nodes if manifest.state != "running" else []:
        if not is_safe_name(node):
            found.append(Damage(path, MANIFEST, "corrupt", f"not the name of a node: {node!r}"))
        elif f"{node}.json" not in parts and f"node {node}" not in missing:
            why = "the node has not written it yet, or never came back"
            found.append(Damage(path, f"{NODES}/{node}.json", "missing", why))
        if len(found) == _TOLD:
            break
    for part in parts.values():
        found += _node(path, part, manifest)
    return found


def _node(path: Path, part: Path, manifest: Manifest) -> list[Damage]:
    file = f"{NODES}/{part.name}"
    if _is_being_written(part):
        return []
    if part.suffix != ".json" or not is_safe_name(part.stem):
        return [Damage(path, file, "extra", "no part of a record")]
    try:
        content = read_plain(part, MANIFEST_MAX_BYTES)
        record = node_from(content.decode())
    except (MalformedRecord, ValueError, TypeError, AttributeError, RecursionError) as error:
        return [Damage(path, file, "corrupt", str(error))]
    except OSError as error:
        return [Damage(path, file, "unreadable", error.strerror or str(error))]
    if not is_intact(content):
        return [Damage(path, file, "corrupt", _CHANGED)]
    if (record.job_id, record.attempt, record.node) != (manifest.job_id, manifest.attempt, part.stem):
        return [Damage(path, file, "corrupt", f"of {record.node}, job {record.job_id}.{record.attempt}")]
    return []


def _rights(path: Path, ownership: Ownership) -> Iterator[Damage]:
    """Whom its directories and files belong to, and who may do what with them."""
    for directory in (path, path / NODES):
        status = _status(directory)
        if status is not None and (why := _directory_fault(status, ownership)):
            yield Damage(path, "" if directory == path else NODES, "rights", why)
    owner = _status(path / MANIFEST)
    for file in (*_children(path), *_children(path / NODES)):
        status = _status(file)
        if status is None or not stat.S_ISREG(status.st_mode) or _is_being_written(file):
            continue
        if owner is not None and status.st_uid != owner.st_uid:
            why = f"it belongs to uid {status.st_uid}, and the manifest to uid {owner.st_uid}"
            yield Damage(path, str(file.relative_to(path)), "rights", why)
        if why := _open_to(status, ownership):
            yield Damage(path, str(file.relative_to(path)), "rights", f"{why}; {_PUT_RIGHT}")


def _directory_fault(status: os.stat_result, ownership: Ownership) -> str:
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISDIR(status.st_mode):
        return "it is no directory"
    if status.st_uid != os.geteuid():
        return f"it belongs to uid {status.st_uid}, and nodes refuse it: chown root"
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others than root may write to it (mode {mode:04o}), and nodes refuse it: chmod {mode & ~0o022:04o}"
    if mode != ownership.directory_mode or ownership.group_id not in (-1, status.st_gid):
        return f"its mode is {mode:04o}, not {ownership.directory_mode:04o}, or its group another; {_PUT_RIGHT}"
    return ""


def _open_to(status: os.stat_result, ownership: Ownership) -> str:
    """Who else than its owner and the administrators' group may do something with a file; "" for nobody."""
    mode = stat.S_IMODE(status.st_mode)
    allowed = ownership.file_mode & 0o077 if ownership.group_id in (-1, status.st_gid) else 0
    return f"others than its owner may read or write it (mode {mode:04o})" if mode & 0o077 & ~allowed else ""


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _extra(path: Path, known: set[str]) -> Iterator[Damage]:
    for entry in _children(path):
        if entry.name not in known and entry.name != NODES and not _is_being_written(entry):
            yield Damage(path, entry.name, "extra", "the manifest does not have it")


def _is_being_written(path: Path) -> bool:
    """A temporary name, and young enough for somebody to be at it; also what is gone by now."""
    try:
        return path.name.startswith(".") and path.lstat().st_mtime > time.time() - _WRITING_S
    except FileNotFoundError:
        return True


def _children(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
