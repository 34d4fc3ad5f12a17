# SPDX-License-Identifier: Apache-2.0
"""Every file that is not as its record says is found, and nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stepguard.archive.ownership import Ownership
from stepguard.archive.plain_files import read_manifest
from stepguard.archive.sealing import is_intact, sealed
from stepguard.archive.verification import Rules, verify
from stepguard.records.manifest import KeptFile, Missing, to_json
from unit.archive.stored import NOW_S, Archive, age

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


@pytest.fixture
def record(archive: Archive) -> Path:
    archive.put(11, start_s=NOW_S - 90_000, end_s=NOW_S - 80_000)
    return archive.put(12, start_s=NOW_S - 90_000, end_s=NOW_S - 80_000, nodes=("n1", "n2"))


def faults(archive: Archive) -> list[str]:
    return [
        f"{damage.record.name} {damage.file} {damage.kind}"
        for _, found in verify(archive.root, Rules())
        for damage in found
    ]


def test_a_whole_archive_has_no_faults(archive: Archive, record: Path) -> None:
    assert [path for path, _ in verify(archive.root, Rules())] == [record.parent / "11.0", record]
    assert faults(archive) == []


def replaced(name: str, content: bytes) -> Callable[[Path], None]:
    def change(record: Path) -> None:
        (record / name).unlink(missing_ok=True)
        (record / name).write_bytes(content)
        (record / name).chmod(0o400)

    return change


def removed(name: str) -> Callable[[Path], None]:
    return lambda record: (record / name).unlink()


def edited(old: str, new: str, name: str = "manifest.json", *, seal: bool = True) -> Callable[[Path], None]:
    """By its owner, who can compute its digest too, or by anybody who does not."""

    def change(record: Path) -> None:
        text = (record / name).read_text()
        assert old in text
        changed = text.replace(old, new)
        document = changed.rpartition(',"sha256"')[0] + "}"
        (record / name).write_bytes(sealed(document) if seal else changed.encode())

    return change


def mode(name: str, bits: int) -> Callable[[Path], None]:
    return lambda record: (record / name).chmod(bits)


def owner(name: str) -> Callable[[Path], None]:
    return lambda record: os.chown(record / name, 1234, -1)


def made_fifo(record: Path) -> None:
    (record / "stdout.zst").unlink()
    os.mkfifo(record / "stdout.zst")


def linked(record: Path) -> None:
    (record / "stdout.zst").unlink()
    (record / "stdout.zst").symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (replaced("stdout.zst", b"0ut"), ["12.0 stdout.zst corrupt"]),
        (replaced("stdout.zst", b""), ["12.0 stdout.zst corrupt"]),
        (removed("stdout.zst"), ["12.0 stdout.zst missing"]),
        (made_fifo, ["12.0 stdout.zst unreadable"]),
        (linked, ["12.0 stdout.zst unreadable"]),
        (removed("nodes/n2.json"), ["12.0 nodes/n2.json missing"]),
        (replaced("nodes/n2.json", b"{"), ["12.0 nodes/n2.json corrupt"]),
        (
            replaced("nodes/n2.json", sealed('{"schema":1,"node":"n1","job_id":"12","attempt":0}')),
            ["12.0 nodes/n2.json corrupt"],
        ),
        (edited('"exit_status":null', '"exit_status":5', seal=False), ["12.0 manifest.json corrupt"]),
        (edited('"state":"ended"', '"state":"lost" ', "nodes/n1.json", seal=False), ["12.0 nodes/n1.json corrupt"]),
        (
            replaced("nodes/n1.json", b'{"schema":1,"node":"n1","job_id":"12","attempt":0}'),
            ["12.0 nodes/n1.json corrupt"],
        ),
        (mode("manifest.json", 0o644), ["12.0 manifest.json rights"]),
        (mode("stdout.zst", 0o404), ["12.0 stdout.zst rights"]),
        (mode("nodes/n1.json", 0o440), ["12.0 nodes/n1.json rights"]),
        (mode("stdout.zst", 0o600), []),
        (mode(".", 0o777), ["12.0  rights"]),
        (mode(".", 0o755), ["12.0  rights"]),
        (mode("nodes", 0o731), ["12.0 nodes rights"]),
        pytest.param(owner("nodes"), ["12.0 nodes rights"], marks=as_root),
        pytest.param(owner("stdout.zst"), ["12.0 stdout.zst rights"], marks=as_root),
        (replaced("nodes/core", b""), ["12.0 nodes/core extra"]),
        (replaced("stderr.zst", b""), ["12.0 stderr.zst extra"]),
        (removed("manifest.json"), ["12.0 manifest.json missing"]),
        (replaced("manifest.json", b"[]"), ["12.0 manifest.json corrupt"]),
        (replaced("manifest.json", b"[" * 100_000), ["12.0 manifest.json corrupt"]),
        (edited('"job_id":"12"', '"job_id":"13"'), ["12.0 manifest.json corrupt"]),
        # What a user may write into their own manifest opens no other file.
        (
            edited('"name":"script"', '"name":"../../../../../../etc/passwd"'),
            ["12.0 manifest.json corrupt", "12.0 script extra"],
        ),
        (edited('"n2"', '"../n2"'), ["12.0 manifest.json corrupt"]),
        (edited('"name":"script"', '"name":"nodes"'), ["12.0 manifest.json corrupt", "12.0 script extra"]),
    ],
)
def test_a_fault_is_found(archive: Archive, record: Path, change: Callable[[Path], None], found: list[str]) -> None:
    change(record)
    assert faults(archive) == found


@pytest.mark.parametrize("name", ["env.json", "stdout.zst"])
def test_a_file_that_its_owner_has_grown_is_a_fault_and_not_read(archive: Archive, record: Path, name: str) -> None:
    """With a manifest that says so too: 5 GiB, whose digest would take half a minute."""
    (record / name).write_bytes(b"x")
    (record / name).chmod(0o400)
    os.truncate(record / name, 5 << 30)
    manifest = read_manifest(record / "manifest.json")
    manifest.files[name] = KeptFile(name, stored_bytes=5 << 30, sha256="0" * 64)
    (record / "manifest.json").write_bytes(sealed(to_json(manifest)))
    before_s = time.process_time()
    assert faults(archive) == [f"12.0 {name} corrupt"]
    assert time.process_time() - before_s < 10


def test_a_manifest_that_names_a_million_things_does_not_take_long(archive: Archive, record: Path) -> None:
    manifest = read_manifest(record / "manifest.json")
    manifest.nodes = [f"n{number}" for number in range(100_000)]
    manifest.missing = [Missing(f"node x{number}", "") for number in range(50_000)]
    for number in range(1000):
        manifest.files[str(number)] = KeptFile(f"f{number}", sha256="0" * 64)
    (record / "manifest.json").write_bytes(sealed(to_json(manifest)))
    before_s = time.process_time()
    assert len(faults(archive)) == 200
    assert time.process_time() - before_s < 20


def test_a_file_that_was_never_finished_is_extra_once_nobody_can_be_at_it(archive: Archive, record: Path) -> None:
    new = record / ".stdout.zst.4711.new"
    new.write_bytes(b"o")
    new.chmod(0o600)
    assert faults(archive) == []
    age(record, NOW_S - 80_000)
    os.utime(new, (1, 1))
    assert faults(archive) == ["12.0 .stdout.zst.4711.new extra"]


def test_a_running_attempt_lacks_nothing_yet(archive: Archive) -> None:
    path = archive.put(1, state="running", nodes=("n1", "n2"))
    (path / "nodes" / "n2.json").unlink()
    assert faults(archive) == []


@as_root
def test_what_the_administrators_group_may_read_is_right_for_that_group_alone(archive: Archive, record: Path) -> None:
    for path in (record, *record.rglob("*")):
        os.chown(path, -1, 4321)
        path.chmod(0o751 if path.is_dir() else 0o440)
    for rules, count in ((Rules(ownership=Ownership(4321, 0o751, 0o440)), 0), (Rules(), 7)):
        found = [damage for path, damages in verify(archive.root, rules) if path == record for damage in damages]
        assert [damage.kind for damage in found] == ["rights"] * count


def test_a_document_carries_its_own_digest() -> None:
    content = sealed('{"a":1,"sha256":"x"}')
    assert is_intact(content)
    assert is_intact(content.rstrip(b"\n"))
    for number in range(len(content) - 1):
        changed = bytearray(content)
        changed[number] ^= 1
        assert not is_intact(bytes(changed)), number
    assert not is_intact(b'{"a":1}\n')
