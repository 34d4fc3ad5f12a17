# SPDX-License-Identifier: Apache-2.0
"""One record, read with the rights of whoever asks. What is damaged or missing is named, all else is still there."""

from __future__ import annotations

import contextlib
import json
import pwd
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from stepguard.archive.index_lines import Entry
from stepguard.archive.layout import (
    ENVIRONMENT,
    FINDINGS,
    MANIFEST,
    NODES,
    RESUMES,
    SCRIPT,
    RecordName,
    is_safe_name,
)
from stepguard.archive.plain_files import MANIFEST_MAX_BYTES, open_plain, read_manifest, read_plain
from stepguard.archive.reading_zst import Damaged, decompressed
from stepguard.errors import StepguardError
from stepguard.records.manifest import (
    FindingRecord,
    KeptFile,
    Manifest,
    Missing,
    NodeRecord,
    ScriptFinding,
    node_from,
)
from stepguard.records.shape import MalformedRecord
from stepguard.slurm.hostlist import expand

_PRINTED_ID = re.compile(r"[0-9]{1,10}(?:[_+][0-9]{1,10})?", re.ASCII)
_TEXT_MAX_BYTES = 16 << 20
# In the year 9999.
_LAST_TIME_S = 253_000_000_000
_T = TypeVar("_T")


class Record:
    """One attempt of a job. `directories`: one, or two of neighbouring days when the clocks of its nodes differed.

    `has_later`: there is a later attempt, as `find` sets it. `troubles` says what could not be read of what
    has been asked for so far, and why.
    """

    def __init__(self, cluster: str, name: RecordName, directories: Sequence[Path], entry: Entry | None) -> None:
        self.cluster = cluster
        self.name = name
        self.directories = tuple(directories)
        self.entry = entry
        self.has_later = False
        self.troubles: list[Missing] = []

    @property
    def job_id(self) -> str:
        return str(self.name.key.job_id)

    @property
    def attempt(self) -> int:
        return self.name.key.attempt

    @property
    def printed_id(self) -> str:
        """The id as Slurm writes it; the number alone where the record, which is its owner's, says what is none."""
        if self.manifest is not None:
            return self.manifest.printed_id if _PRINTED_ID.fullmatch(self.manifest.printed_id) else self.job_id
        return self.entry.printed_id if self.entry else self.job_id

    @property
    def start_s(self) -> float | None:
        """When it started, as far as anything tells."""
        if self.manifest is not None:
            return self.manifest.start_s
        if self.entry is not None:
            return self.entry.start_s
        return min((part.start_s for part in self.nodes if part.start_s is not None), default=None)

    @property
    def user(self) -> str:
        """The owner's name: as a hook told it, else as this host knows their number; "" where neither is known."""
        if self.manifest is not None:
            return self.manifest.user or user_name(self.manifest.uid)
        return (self.entry.user or user_name(self.entry.uid)) if self.entry else ""

    @cached_property
    def manifest(self) -> Manifest | None:
        """None where the lead node has not written one, or it cannot be read."""
        return self._read(MANIFEST, read_manifest, "the first node of the job wrote none")

    @cached_property
    def nodes(self) -> list[NodeRecord]:
        """The parts of all nodes that wrote one, in the order of the job's nodes."""
        found: dict[str, NodeRecord] = {}
        for name in self._node_names():
            part = self._read(f"{NODES}/{name}.json", _node, "")
            if part is not None:
                found[name] = part
        return list(found.values())

    @cached_property
    def findings(self) -> list[FindingRecord]:
        """What the lead node and all others found, each once, in the order of time."""
        told = [_finding(line) for line in self._lines(FINDINGS)]
        told += [finding for part in self.nodes for finding in part.findings]
        once = {(one.code, one.text, one.node, one.step_id, one.about): one for one in reversed(told) if one}
        return sorted(once.values(), key=lambda one: one.time_s or 0.0)

    @property
    def script_findings(self) -> list[ScriptFinding]:
        """What check-script says about the script, in the order of its lines."""
        return self.manifest.script_findings if self.manifest else []

    @cached_property
    def resumes(self) -> list[dict[str, Any]]:
        """The lines of auto-resume's journal that belong to this job (stepguard.resume.journal)."""
        return [line for line in self._lines(RESUMES) if isinstance(line.get("event"), str)]

    @cached_property
    def script(self) -> bytes | None:
        return self._read(SCRIPT, lambda path: read_plain(path, _TEXT_MAX_BYTES), self._gone("script"))

    @cached_property
    def environment(self) -> dict[str, str] | None:
        """The job's environment; undecodable bytes are lone surrogates."""
        return self._read(ENVIRONMENT, _environment, self._gone("environment", "env"))

    def kept(self, *names: str) -> KeptFile | None:
        """What the manifest says of a file."""
        files = self.manifest.files if self.manifest else {}
        return next((files[name] for name in names if name in files), None)

    def has_output(self, name: str) -> bool:
        """Whether `stdout` or `stderr` is stored."""
        return any((directory / f"{name}.zst").exists() for directory in self.directories)

    def output(self, name: str) -> Iterator[bytes]:
        """What was kept of `stdout` or `stderr`, a piece at a time; ends early, with a trouble, where it is damaged."""
        file = self._read(f"{name}.zst", open_plain, self._gone(name))
        if file is not None:
            yield from self._pieces(name, file)

    def _pieces(self, name: str, file: BinaryIO) -> Iterator[bytes]:
        with file:
            try:
                yield from decompressed(file)
            except (Damaged, OSError) as error:
                self.troubles.append(Missing(f"{name}.zst", str(error)))
            except ImportError:
                self.troubles.append(Missing(f"{name}.zst", "the Python module zstandard is not installed here"))

    def _node_names(self) -> list[str]:
        """Of the nodes that may have written a part: those of the job and its steps, and those that can be listed."""
        names: dict[str, None] = {}
        if self.manifest is not None:
            names.update(dict.fromkeys(self.manifest.nodes))
            for text in dict.fromkeys([self.manifest.node_list, *(step.nodes for step in self.manifest.steps)]):
                with contextlib.suppress(StepguardError):
                    names.update(dict.fromkeys(expand(text)))
        elif self.entry is not None:
            with contextlib.suppress(StepguardError):
                names.update(dict.fromkeys(expand(self.entry.nodes)))
        for directory in self.directories:
            with contextlib.suppress(OSError):
                listed = sorted((directory / NODES).glob("*.json"))
                names.update(dict.fromkeys(path.stem for path in listed))
        return [name for name in names if is_safe_name(name)]

    def _gone(self, *names: str) -> str:
        """The trouble with a file that is not there, if it should be."""
        kept = self.kept(*names)
        return "it is not there, although the manifest has it" if kept and kept.stored_bytes else ""

    def _lines(self, name: str) -> list[dict[str, Any]]:
        content = self._read(name, lambda path: read_plain(path, _TEXT_MAX_BYTES), "") or b""
        found = []
        damaged = 0
        for line in content.splitlines():
            try:
                value = _document(line)
            except ValueError:
                damaged += 1
                continue
            found.append(value)
        if damaged:
            self.troubles.append(Missing(name, f"{damaged} damaged lines are left out"))
        return found

    def _read(self, name: str, read: Callable[[Path], _T], if_absent: str) -> _T | None:
        """What the first directory that has such a file gives; else None, and a trouble, unless it may be absent."""
        why = if_absent
        for directory in self.directories:
            try:
                return read(directory / name)
            except FileNotFoundError:
                continue
            except OSError as error:
                why = error.strerror or str(error)
            except ValueError as error:
                why = str(error)
            break
        if why:
            self.troubles.append(Missing(name, why))
        return None


@cache
def user_name(uid: int | None) -> str:
    """The name that this host has for a user's number; "" for none."""
    try:
        return pwd.getpwuid(uid).pw_name if uid is not None else ""
    except (KeyError, OverflowError):
        return ""


def _document(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content, parse_constant=_no_constant)
    except RecursionError as error:
        raise MalformedRecord("nested too deeply") from error
    if not isinstance(value, dict):
        raise MalformedRecord("not a JSON object")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _node(path: Path) -> NodeRecord:
    try:
        return node_from(read_plain(path, MANIFEST_MAX_BYTES).decode())
    except (TypeError, AttributeError, RecursionError) as error:
        raise MalformedRecord(str(error)) from error


def _environment(path: Path) -> dict[str, str]:
    values = _document(read_plain(path, _TEXT_MAX_BYTES))
    if not all(isinstance(value, str) for value in values.values()):
        raise MalformedRecord("a variable that is no text")
    return values


def _finding(line: dict[str, Any]) -> FindingRecord | None:
    time_s = line.pop("time_s", None)
    texts = {name: value for name, value in line.items() if name in FindingRecord.__dataclass_fields__}
    if not {"code", "text"} <= texts.keys() or not all(isinstance(value, str) for value in texts.values()):
        return None
    known = isinstance(time_s, int | float) and abs(time_s) < _LAST_TIME_S
    return FindingRecord(**texts, time_s=float(time_s) if known else None)
