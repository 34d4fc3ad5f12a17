# SPDX-License-Identifier: Apache-2.0
"""What root gets to read of a job's output file: what its owner may, and nothing that acts when it is opened."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shim import listeners
from shim.built import REPOSITORY, SANITIZE
from shim.delivering import NOBODY, needs_root

pytestmark = needs_root
UID, GID = 54321, 54322
"""Nobody's on any machine that tests run on; has no entry, so only the group of the job counts."""
LINE_SIZE = 512


class Read(NamedTuple):
    status: int
    said: str
    line: dict[str, Any]
    content: bytes


class Reader:
    """The program, and a directory that others may pass through."""

    def __init__(self, directory: Path, program: Path) -> None:
        self.directory = directory
        self.program = program

    def read(
        self, path: str | bytes | Path, head: int = 100, tail: int = 100, uid: int = UID, gid: int = GID, **popen: Any
    ) -> Read:
        output = self.directory / "output"
        with output.open("wb") as file:
            done = subprocess.run(
                [self.program, *map(str, (uid, gid, head, tail)), path],
                stdout=file,
                stderr=subprocess.PIPE,
                check=False,
                timeout=30,
                **popen,
            )
        written = output.read_bytes()
        line = json.loads(written[:LINE_SIZE]) if done.returncode == 0 else {}
        assert done.returncode != 0 or written[LINE_SIZE - 1 : LINE_SIZE] == b"\n"
        return Read(done.returncode, done.stderr.decode(), line, written[LINE_SIZE:])

    def file(self, name: str | bytes, content: bytes = b"", uid: int = UID, gid: int = GID, mode: int = 0o600) -> Path:
        path = self.directory / os.fsdecode(name)
        path.write_bytes(content)
        os.chown(path, uid, gid)
        path.chmod(mode)
        return path


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    with listeners.short_directory() as directory:
        flags = [f"CFLAGS={SANITIZE}", f"OUT={directory}"]
        subprocess.run(["make", "-s", "-C", str(REPOSITORY / "hooks"), *flags, f"{directory}/read_as"], check=True)
        yield directory / "read_as"


@pytest.fixture
def reader(program: Path) -> Iterator[Reader]:
    with listeners.short_directory() as directory:
        yield Reader(directory, program)


@pytest.mark.parametrize(
    ("size", "head", "tail", "kept"),
    [
        (0, 3, 4, ()),
        (1, 3, 4, ((0, 1),)),
        (7, 3, 4, ((0, 7),)),
        (8, 3, 4, ((0, 3), (4, 8))),
        (1000, 3, 4, ((0, 3), (996, 1000))),
        (1000, 0, 4, ((996, 1000),)),
        (1000, 3, 0, ((0, 3),)),
        (1000, 0, 0, ()),
        (300_000, 65_537, 131_073, ((0, 65_537), (300_000 - 131_073, 300_000))),
    ],
)
def test_head_and_tail(reader: Reader, size: int, head: int, tail: int, kept: tuple[tuple[int, int], ...]) -> None:
    content = b"".join(b"%07d\n" % number for number in range(size // 8 + 1))[:size]
    path = reader.file("out", content)
    done = reader.read(path, head, tail)
    assert (done.status, done.said) == (0, "")
    assert done.content == b"".join(content[begin:end] for begin, end in kept)
    status = path.stat()
    assert done.line == {
        "what": "regular",
        "errno": "",
        "size_bytes": size,
        "dev": status.st_dev,
        "ino": status.st_ino,
        "nlink": 1,
        "mtime_ns": status.st_mtime_ns,
        "head_bytes": min(head, size),
        "tail_bytes": min(tail, size - min(head, size)),
    }


def test_sparse_file(reader: Reader) -> None:
    path = reader.file("out", b"begin")
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    done = reader.read(path, 8, 100_000)
    assert done.line["size_bytes"] == 1 << 40
    assert done.content == b"begin\0\0\0" + bytes(100_000)


def test_file_that_is_shorter_than_it_said(reader: Reader) -> None:
    """As one that is cut while it is read. Files of sysfs say that they have 4096 bytes."""
    path = Path("/sys/kernel/uevent_seqnum")
    done = reader.read(path, 1000, 100_000)
    assert done.line["size_bytes"] == 4096
    assert done.content.strip().isdigit()
    assert (done.line["head_bytes"], done.line["tail_bytes"]) == (len(done.content), 0)


def _make_link(path: Path) -> None:
    path.symlink_to("/etc/shadow")


def _make_fifo(path: Path) -> None:
    os.mkfifo(path)


def _make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _make_device(path: Path) -> None:
    os.mknod(path, 0o20666, os.makedev(1, 5))


def _make_block_device(path: Path) -> None:
    os.mknod(path, 0o60666, os.makedev(7, 0))


def _make_other_users(path: Path) -> None:
    path.write_text("secret")
    path.chmod(0o600)


def _make_secret_hard_link(path: Path) -> None:
    _make_other_users(path.with_name("secret"))
    path.hardlink_to(path.with_name("secret"))


@pytest.mark.parametrize(
    ("make", "what", "error"),
    [
        (_make_link, "link", ""),
        (_make_fifo, "fifo", ""),
        (_make_socket, "socket", ""),
        (_make_device, "chr", ""),
        (_make_block_device, "blk", ""),
        (Path.mkdir, "directory", ""),
        (_make_other_users, "unreadable", "EACCES"),
        (_make_secret_hard_link, "unreadable", "EACCES"),
        (lambda path: None, "absent", "ENOENT"),
    ],
)
def test_what_is_not_read(reader: Reader, make: Any, what: str, error: str) -> None:
    path = reader.directory / "out"
    make(path)
    done = reader.read(path)
    assert (done.status, done.said, done.content) == (0, "", b"")
    assert (done.line["what"], done.line["errno"]) == (what, error)
    assert (done.line["head_bytes"], done.line["tail_bytes"]) == (0, 0)
    if what != "absent":
        status = path.lstat()
        assert [done.line[key] for key in ("size_bytes", "ino", "nlink")] == [
            status.st_size,
            status.st_ino,
            status.st_nlink,
        ]


def test_writer_of_a_fifo_does_not_wake(reader: Reader) -> None:
    path = reader.directory / "out"
    os.mkfifo(path, 0o666)
    opened = threading.Event()

    def write() -> None:
        os.close(os.open(path, os.O_WRONLY))
        opened.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert reader.read(path).line["what"] == "fifo"
        assert not opened.wait(0.3)
    finally:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        thread.join()


def test_directory_that_its_owner_may_not_pass(reader: Reader) -> None:
    closed = reader.directory / "closed"
    closed.mkdir(mode=0o700)
    reader.file("closed/out", b"x", mode=0o644)
    done = reader.read(closed / "out")
    assert (done.line["what"], done.line["errno"]) == ("unreadable", "EACCES")
    assert done.line["size_bytes"] == 0


def test_path_through_a_file_or_in_a_circle(reader: Reader) -> None:
    file = reader.file("out", b"x", mode=0o644)
    (reader.directory / "circle").symlink_to("circle")
    lines = [reader.read(path).line for path in (file / "x", reader.directory / "circle/x", f"/{'x' * 5000}")]
    assert [line["errno"] for line in lines] == ["ENOTDIR", "ELOOP", "ENAMETOOLONG"]
    assert [line["what"] for line in lines] == ["absent", "unreadable", "unreadable"]


@pytest.mark.parametrize("name", ["-n", "a b\n\"'\\", b"\xff\xfe", "\x1b[31m", "%n%s", "ä"])
def test_names_of_all_sorts(reader: Reader, name: str | bytes) -> None:
    path = reader.file(name, b"content")
    assert reader.read(path).content == b"content"


@pytest.mark.parametrize(
    ("uid", "gid", "mode", "may"), [(1, GID, 0o040, True), (1, 1, 0o040, False), (1, 1, 0o004, True)]
)
def test_rights_of_group_and_others(reader: Reader, uid: int, gid: int, mode: int, may: bool) -> None:
    path = reader.file("out", b"content", mode=mode)
    assert (reader.read(path, uid=uid, gid=gid).line["what"] == "regular") == may


def test_owner_has_the_groups_of_its_entry_and_not_roots(reader: Reader) -> None:
    """Root's own group would open this, if it were kept."""
    path = reader.file("out", b"content", uid=1, gid=0, mode=0o040)
    assert reader.read(path).line["what"] == "unreadable"
    assert reader.read(path, uid=0, gid=0).content == b"content"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["1", "1", "1", "1"],
        ["1", "1", "1", "1", "/a", "/b"],
        ["", "1", "1", "1", "/a"],
        ["-1", "1", "1", "1", "/a"],
        ["4294967295", "1", "1", "1", "/a"],
        ["1", "4294967296", "1", "1", "/a"],
        ["1", "1", "1", "99999999999999999999", "/a"],
        ["1", "1", "1", "2000000000000", "/a"],
        ["nobody", "1", "1", "1", "/a"],
        ["1", "1", "1", "1", "a"],
        ["1", "1", "1", "1", ""],
    ],
)
def test_wrong_arguments(reader: Reader, words: list[str]) -> None:
    done = subprocess.run([reader.program, *words], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("stepguard: read_as: ")


def test_rights_that_it_does_not_have(reader: Reader) -> None:
    path = reader.file("out", b"content", mode=0o644)
    done = reader.read(path, user=NOBODY)
    assert (done.status, done.content) == (3, b"")
    assert "cannot give up root's groups: Operation not permitted" in done.said


@pytest.mark.parametrize("output", ["/dev/full", "a pipe"])
def test_output_that_cannot_be_written(reader: Reader, output: str) -> None:
    path = reader.file("out", b"content")
    command = [str(reader.program), str(UID), str(GID), "10", "10", str(path)]
    with Path("/dev/full").open("wb") as full:
        stdout = full if output == "/dev/full" else subprocess.PIPE
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith(b"stepguard: read_as: cannot write: ")
