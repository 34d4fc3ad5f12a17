# SPDX-License-Identifier: Apache-2.0
"""Records as archivers leave them, made by hand for tests of what is done with them later."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from stepguard.archive.layout import ClusterLayout, RecordName, day_of
from stepguard.archive.sealing import sealed
from stepguard.records.manifest import KeptFile, Manifest, NodeRecord, to_json
from stepguard.records.spool import AttemptKey

DAY_S = 86400.0
NOW_S = 1_800_000_000.0


@dataclass
class Archive:
    """An archive with one cluster, `lab`."""

    root: Path

    @property
    def cluster(self) -> ClusterLayout:
        return ClusterLayout.of(self.root, "lab")

    def put(
        self,
        job_id: int,
        *,
        attempt: int = 0,
        start_s: float = NOW_S,
        end_s: float | None = None,
        state: str = "ended",
        script: bytes = b"#!/bin/sh\ntrue\n",
        output: bytes = b"out",
        nodes: tuple[str, ...] = ("n1",),
    ) -> Path:
        """A whole record, all of whose files are as old as its end."""
        path = self.cluster.record(day_of(start_s), RecordName(AttemptKey(job_id, attempt)))
        (path / "nodes").mkdir(parents=True)
        kept = [self._script(path, script), self._file(path, "stdout.zst", output)]
        manifest = Manifest("lab", str(job_id), attempt, state=state, start_s=start_s, end_s=end_s, nodes=list(nodes))
        manifest.files = {file.name: file for file in kept}
        (path / "manifest.json").write_bytes(sealed(to_json(manifest)))
        for node in nodes:
            part = NodeRecord(node, str(job_id), attempt, state)
            (path / "nodes" / f"{node}.json").write_bytes(sealed(to_json(part)))
        for one in (path, *path.rglob("*")):
            one.chmod(0o711 if one.is_dir() else 0o400)
        age(path, start_s if end_s is None else end_s)
        return path

    def scripts(self) -> list[Path]:
        return sorted(path for path in self.cluster.scripts.glob("*/*"))

    def _script(self, path: Path, content: bytes) -> KeptFile:
        sha256 = hashlib.sha256(content).hexdigest()
        store = self.cluster.scripts / str(os.getuid()) / sha256
        store.parent.mkdir(parents=True, exist_ok=True)
        store.write_bytes(content)
        (path / "script").hardlink_to(store)
        return KeptFile("script", stored_bytes=len(content), sha256=sha256)

    def _file(self, path: Path, name: str, content: bytes) -> KeptFile:
        (path / name).write_bytes(content)
        return KeptFile(name, stored_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def age(path: Path, time_s: float) -> None:
    """Makes all in a record as if it had been written at that time."""
    for directory, _, files in os.walk(path, topdown=False):
        for name in files:
            os.utime(Path(directory, name), (time_s, time_s))
        os.utime(directory, (time_s, time_s))
