# SPDX-License-Identifier: Apache-2.0
"""What is no file: said, and neither waited for nor read without end."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from stepguard.scripts import opening
from stepguard.scripts.opening import MAX_SCRIPT_BYTES, read


def test_pipe_with_a_writer(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"#!/bin/sh\n" * 10_000,))
    writer.start()
    assert read(str(pipe)) == b"#!/bin/sh\n" * 10_000
    writer.join()


def test_process_substitution() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"srun x\n")
    os.close(writing)
    assert read(f"/dev/fd/{reading}") == b"srun x\n"
    os.close(reading)


def test_what_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_WRITER_WAIT_S", 0.01)
    monkeypatch.chdir(tmp_path)  # a socket's name is short
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        for name, said in {
            "pipe": "a pipe that nothing was written into",
            "socket": "No such device or address",
            "/dev/zero": "a device",
            ".": "Is a directory",
            "none": "No such file",
        }.items():
            with pytest.raises(OSError) as caught:
                read(name)
            assert said in str(caught.value.strerror), name


@pytest.mark.parametrize("is_pipe", [False, True])
def test_no_more_than_slurmctld_takes(tmp_path: Path, is_pipe: bool) -> None:
    data = b"#" * (MAX_SCRIPT_BYTES + 1)
    file = tmp_path / "file"
    if not is_pipe:
        file.write_bytes(data[:-1])
        assert len(read(str(file))) == MAX_SCRIPT_BYTES
        file.write_bytes(data)
    else:
        os.mkfifo(file)
        threading.Thread(target=_fill, args=(file, data), daemon=True).start()
    with pytest.raises(OSError, match="larger than 4 MiB"):
        read(str(file))


def _fill(file: Path, data: bytes) -> None:
    try:
        file.write_bytes(data)
    except BrokenPipeError:
        return
