# SPDX-License-Identifier: Apache-2.0
"""Notes that C leaves in the spool where there is no agent."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest

from shim.delivering import NOBODY, Place, needs_root


def test_spool_is_made_for_its_owner_alone(place: Place) -> None:
    place.deliver()
    (note,) = place.spool.glob("notes/*.note")
    assert [path.stat().st_mode & 0o777 for path in (place.spool, note.parent, note)] == [0o700, 0o700, 0o600]


def _link_spool(place: Place) -> None:
    place.spool.symlink_to(place.directory)


def _link_notes(place: Place) -> None:
    place.spool.mkdir()
    (place.spool / "notes").symlink_to(place.directory)


def _open_spool(place: Place) -> None:
    place.spool.mkdir()
    place.spool.chmod(0o777)


def _open_notes(place: Place) -> None:
    (place.spool / "notes").mkdir(parents=True)
    (place.spool / "notes").chmod(0o770)


def _spool_is_a_file(place: Place) -> None:
    place.spool.touch()


def _spool_of_somebody_else(place: Place) -> None:
    place.spool.mkdir()
    os.chown(place.spool, NOBODY, NOBODY)


_NOT_OWN = "not a directory of its own that nobody else can write"


@pytest.mark.parametrize(
    "trap",
    [
        _link_spool,
        _link_notes,
        _open_spool,
        _open_notes,
        _spool_is_a_file,
        pytest.param(_spool_of_somebody_else, marks=needs_root),
    ],
)
def test_spool_that_others_could_write(place: Place, trap: Callable[[Place], None]) -> None:
    trap(place)
    before = sorted(place.directory.rglob("*"))
    sent = place.deliver()
    assert sent.outcome == "lost"
    assert sent.why.endswith(f": no note in {place.spool} either: {_NOT_OWN}")
    assert sorted(place.directory.rglob("*")) == before


def test_spool_whose_parent_is_missing(place: Place) -> None:
    place.config.write_text(place.config.read_text().replace("/spool", "/none/spool"))
    assert place.deliver().why.endswith("/none/spool either: No such file or directory")


def test_notes_are_bounded_by_number(place: Place) -> None:
    place.deliver()
    for number in range(9998):
        (place.spool / f"notes/{number}.note").touch()
    assert place.deliver().outcome == "noted"
    sent = place.deliver()
    assert (sent.outcome, sent.why.rpartition(": ")[2]) == ("lost", "as many notes as may be lie there already")
    assert len(list(place.spool.glob("notes/*"))) == 10_000


def test_notes_are_bounded_by_size(place: Place) -> None:
    place.deliver()
    with (place.spool / "notes/large.note").open("wb") as file:
        file.truncate((256 << 20) - 100_000)
    assert place.deliver(("script", "x" * 100, 1000)).outcome == "lost"
    assert place.deliver(("script", "x" * 100, 10)).outcome == "noted"


@needs_root
def test_disk_of_the_spool_is_full(place: Place) -> None:
    place.spool.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "spool", place.spool], check=True)
    try:
        sent = place.deliver(("script", "x" * 100, 1000))
        assert (sent.outcome, sent.why.rpartition(": ")[2]) == ("lost", "No space left on device")
        assert list(place.spool.glob("notes/*")) == []
    finally:
        subprocess.run(["umount", place.spool], check=True)


def test_many_at_once_leave_a_note_each(place: Place) -> None:
    command = [str(place.program), "deliver", str(place.config), "1", "1000", "prolog", "job_id"]
    started = [subprocess.Popen([*command, str(job_id), "1"], stdout=subprocess.PIPE) for job_id in range(40)]
    said = [process.communicate()[0].split(b"\n")[0] for process in started]
    assert said == [b"noted"] * 40
    assert sorted(int(note["job_id"]) for note in place.notes()) == list(range(40))
