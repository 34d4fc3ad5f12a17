# SPDX-License-Identifier: Apache-2.0
"""What a record lacks: as its nodes said, what could not be read, and the nodes that said nothing."""

from __future__ import annotations

from stepguard.archive.reading_record import Record
from stepguard.records.manifest import Manifest, Missing, NodeRecord
from stepguard.slurm import hostlist

# A page tells of them beside their last lines, and a cut of theirs is marked where it is.
_OUTPUTS = ("stdout", "stderr")
# Parts of a record as `stepguard job` names them, and their files as a manifest does, where these differ.
_NAMED_IN_MANIFEST = {"env": "environment"}
NO_WORD = "it may be down, or its agent"
_UNUSED = "no step ran there, and without PrologFlags=Alloc Slurm runs a prolog for the first step only"


def missing_of(record: Record) -> list[Missing]:
    """What the record lacks: as its nodes said, and what could not be read just now."""
    told = [*(_told_by(record.manifest) if record.manifest else []), *record.troubles]
    lead = record.manifest.lead_node if record.manifest else ""
    unused = [part.node for part in record.nodes if part.node != lead and _is_unused(part)]
    for part in record.nodes:
        if part.node != lead and part.node not in unused:
            told += [Missing(f"{one.what} of {part.node}", one.why) for one in part.missing]
    if unused:
        told.append(Missing(f"prolog and start of {hostlist.fold(unused)}", _UNUSED))
    if silent := silent_nodes(record):
        told.append(Missing(f"all of {silent}", f"no word of it: {NO_WORD}"))
    return list({(one.what, one.why): one for one in told}.values())


def part_lacks(record: Record, part: str) -> list[Missing]:
    """What a part of the record lacks that has just been read: what its lead node did not keep of it, and what could
    not be read now."""
    name = _NAMED_IN_MANIFEST.get(part, part)
    told = _told_by(record.manifest) if record.manifest else []
    return [*(one for one in told if one.what == name), *record.troubles]


def is_not_kept(record: Record, part: str) -> bool:
    """Whether there was a file for this part of the record, of which nothing was kept."""
    kept = record.kept(_NAMED_IN_MANIFEST.get(part, part))
    return kept is not None and not kept.name


def _told_by(manifest: Manifest) -> list[Missing]:
    """What its lead node says that the record lacks, and what it says to be cut."""
    named = {one.what for one in manifest.missing}
    cut = [Missing(name, kept.why) for name, kept in manifest.files.items() if kept.why and name not in _OUTPUTS]
    return [*manifest.missing, *(one for one in cut if one.what not in named)]


def silent_nodes(record: Record) -> str:
    """The nodes of an attempt that has ended which have not told their part, as a host list; "" for none."""
    manifest = record.manifest
    if manifest is None or manifest.state == "running":
        return ""
    told = {part.node for part in record.nodes}
    return hostlist.fold(node for node in manifest.nodes if node not in told)


def _is_unused(part: NodeRecord) -> bool:
    """Whether all that it lacks is what Slurm leaves out on a node that no step uses."""
    used = any(step.step_id != "extern" for step in part.steps)
    return not used and {one.what for one in part.missing} == {"prolog", "start"}
