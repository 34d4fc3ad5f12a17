# SPDX-License-Identifier: Apache-2.0
"""The epilog of a node that tells nothing else of an attempt goes into the record of the attempt that it ended, though
Slurm may have counted the requeue already; and makes no record of one that never ran."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stepguard.archive import due, lone_epilog
from stepguard.archive.archiver import Archiver
from stepguard.archive.ownership import OWNER_ONLY
from stepguard.archive.redaction import Redactor, load_rules
from stepguard.archive.verification import Rules, verify
from stepguard.records.manifest import Manifest, NodeRecord, manifest_from, node_from
from stepguard.records.spool import SpoolLayout
from unit.archive.spools import START_S, Told

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")
REDACTOR = Redactor(b"k" * 32, load_rules(None, ()))
RECORDS = "lab/2026/11/18"


@dataclass
class Site:
    """An archive, and the spools of the nodes that write to it."""

    root: Path
    said: list[str] = field(default_factory=list)
    archivers: dict[str, Archiver] = field(default_factory=dict)

    def archive(self, node: str, *told: Told, rounds: int = 2) -> None:
        """A node's archiver looks at what is new in its spool, and at what has been waiting there."""
        spool = self.root / node
        for one in told:
            one.put(spool)
        if node not in self.archivers:
            layout = SpoolLayout(spool)
            self.archivers[node] = Archiver(layout, self.root / "archive", REDACTOR, OWNER_ONLY, self.said.append)
        for _ in range(rounds):
            self.archivers[node]._round(time.monotonic())

    def waits(self, node: str) -> bool:
        return any((self.root / node / "jobs").iterdir())

    def manifest(self, attempt: int = 0) -> Manifest:
        return manifest_from((self.root / f"archive/{RECORDS}/12.{attempt}/manifest.json").read_text())

    def part(self, node: str, attempt: int = 0) -> NodeRecord:
        return node_from((self.root / f"archive/{RECORDS}/12.{attempt}/nodes/{node}.json").read_text())

    @property
    def records(self) -> list[str]:
        return sorted(path.name for path in (self.root / "archive").glob("*/*/*/*/12.*"))

    def assert_whole(self) -> None:
        assert [damage.text for _, found in verify(self.root / "archive", Rules()) for damage in found] == []
        assert self.said == []


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    (tmp_path / "archive").mkdir(mode=0o711)
    monkeypatch.setattr(due, "EARLY_S", 0.0)
    monkeypatch.setattr(due, "WAIT_S", 0.0)
    return Site(tmp_path)


def led(attempt: int = 0, since_s: float = 0.0, counted: int | None = None) -> Told:
    """An attempt on n1, which leads, for a minute; its epilog names the restart count `counted`."""
    told = Told(attempt=attempt, clock_s=START_S + since_s, boottime_s=1000 + since_s).prolog().batch().output()
    told.after(60).step_end("batch", (0, 15))
    return told.epilog(SLURM_JOB_RESTART_COUNT=str(attempt if counted is None else counted))


def lone(counted: int, at_s: float, key: int | None = None, boot_id: str = "boot-2", node: str = "n2") -> Told:
    """The epilog of n2, where the agent has put it."""
    number = max(counted - 1, 0) if key is None else key
    told = Told(attempt=number, node=node, boot_id=boot_id, clock_s=START_S + at_s, boottime_s=50 + at_s)
    return told.epilog(SLURM_JOB_RESTART_COUNT=str(counted))


@pytest.mark.parametrize("key", [0, 1])
def test_of_a_requeued_attempt(site: Site, key: int) -> None:
    site.archive("n1", led(counted=1))
    site.archive("n2", lone(1, 63, key))
    assert (site.records, site.part("n2").state, site.part("n2").attempt) == (["12.0"], "ended", 0)
    assert not site.waits("n2")
    site.assert_whole()


def test_epilogs_that_took_long(site: Site) -> None:
    """The batch script had ended 30 s before all epilogs, and the next attempt began right after them."""
    first = Told().prolog().batch().after(60).step_end("batch", (0, 15)).after(30)
    site.archive("n1", first.epilog(SLURM_JOB_RESTART_COUNT="1"), led(1, 95))
    site.archive("n2", lone(1, 93), lone(1, 158, key=1))
    assert (site.manifest().end_s, site.part("n1").end_s) == (START_S + 62, START_S + 93)
    assert (site.part("n2").end_s, site.waits("n2")) == (START_S + 93, False)
    assert site.part("n2", attempt=1).end_s == START_S + 158
    site.assert_whole()


def test_it_waits_for_the_record_of_the_first_node(site: Site) -> None:
    site.archive("n2", lone(1, 63))
    assert (site.records, site.waits("n2")) == ([], True)
    site.archive("n1", led(counted=1))
    site.archive("n2")
    assert (site.records, site.waits("n2"), site.part("n2").state) == (["12.0"], False, "ended")
    site.assert_whole()


def test_others_do_not_wait(site: Site) -> None:
    site.archive("n2", lone(1, 63), Told(job_id=13, node="n2", nodes="n2").prolog().batch().epilog())
    assert [path.name for path in (site.root / "n2/jobs").iterdir()] == ["12.0"]
    assert (site.root / f"archive/{RECORDS}/13.0/manifest.json").exists()


def test_in_the_end_it_is_of_the_attempt_that_has_run(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.archive("n2", lone(3, 63))
    monkeypatch.setattr(lone_epilog, "PATIENCE_S", 0.0)
    site.archive("n2")
    assert (site.records, site.waits("n2")) == (["12.2"], False)


def test_of_an_attempt_that_ended_by_itself(site: Site) -> None:
    """Its first node may be slow to tell."""
    site.archive("n1", led(counted=1))
    site.archive("n2", lone(1, 63), lone(1, 263, 1))
    assert site.waits("n2") is False
    assert site.part("n2", 1).attempt == 1
    site.archive("n1", led(1, 200))
    assert site.records == ["12.0", "12.1"]
    assert {site.part("n2", attempt).end_s for attempt in (0, 1)} == {START_S + 63, START_S + 263}
    site.assert_whole()


def test_of_the_last_attempt_where_that_of_the_first_is_lost(site: Site) -> None:
    site.archive("n1", led(counted=1))
    site.archive("n2", lone(1, 263))
    assert site.waits("n2"), "nobody has told yet that attempt 1 ran"
    site.archive("n1", led(1, 200))
    site.archive("n2")
    assert site.part("n2", 1).end_s == START_S + 263
    assert not (site.root / f"archive/{RECORDS}/12.0/nodes/n2.json").exists()


@pytest.mark.parametrize(("off_s", "attempt"), [(30, 0), (-30, 0), (195, 1), (230, 1)])
def test_clocks_that_differ(site: Site, off_s: float, attempt: int) -> None:
    """Attempt 0 ended at 63 s by the clock of n1, attempt 1 ran from 200 s to 263 s."""
    site.archive("n1", led(counted=1), led(1, 200))
    site.archive("n2", lone(1, 63 + off_s))
    assert site.part("n2", attempt).end_s == START_S + 63 + off_s


def test_one_that_comes_twice_changes_nothing(site: Site) -> None:
    site.archive("n1", led(counted=1))
    record = site.root / f"archive/{RECORDS}/12.0"
    before = {path: path.read_bytes() for path in record.rglob("*") if path.is_file()}
    again = Told(attempt=1, clock_s=START_S + 64, boottime_s=1064)
    again.epilog(SLURM_JOB_RESTART_COUNT="1", SLURM_JOB_EXIT_CODE2="0:1")
    site.archive("n1", again)
    assert {path: path.read_bytes() for path in record.rglob("*") if path.is_file()} == before
    assert (site.said, site.records, site.waits("n1")) == ([], ["12.0"], False)


def test_after_a_reboot_a_lost_attempt_stays_lost(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Told(nodes="n1").prolog().batch().output().after(100)
    lost.boot_id, lost.boottime_s = "boot-3", 20.0
    site.archive("n1", lost.say("closed", why="reboot"))
    monkeypatch.setattr(lone_epilog, "PATIENCE_S", 0.0)
    late = Told(attempt=0, nodes="n1", boot_id="boot-3", clock_s=START_S + 130, boottime_s=25.0)
    site.archive("n1", late.epilog(SLURM_JOB_RESTART_COUNT="1", SLURM_JOB_EXIT_CODE2="0:1"))
    manifest = site.manifest()
    assert (site.records, manifest.state, manifest.outcome) == (["12.0"], "lost", "lost")
    assert (manifest.exit_status, manifest.exit_signal, manifest.last_heard_s) == (None, None, START_S + 1)
    assert (site.part("n1").state, site.part("n1").last_heard_s) == ("lost", START_S + 1)
    site.assert_whole()


def test_the_attempt_that_follows_a_reboot_is_not_in_its_way(site: Site) -> None:
    """Of the node that was lost, the second attempt ran elsewhere; it boots before that is over."""
    site.archive("n1", led(1, 200))
    site.archive("n2", lone(1, 170), lone(2, 400, 2))
    assert (site.part("n2", 0).end_s, site.records) == (START_S + 170, ["12.0", "12.1"])
    assert site.waits("n2"), "of attempt 2 nothing is known yet"


@pytest.mark.parametrize(
    "told",
    [
        lambda: Told().epilog(),
        lambda: Told().epilog(SLURM_JOB_RESTART_COUNT="0"),
        lambda: Told(attempt=1).prolog().epilog(SLURM_JOB_RESTART_COUNT="1"),
        lambda: Told(attempt=1).step_start(0, "true").epilog(SLURM_JOB_RESTART_COUNT="2"),
    ],
    ids=["no count", "the first", "with a prolog", "with a step"],
)
def test_what_is_no_lone_epilog_of_a_later_attempt_is_archived_as_it_lies(site: Site, told: Callable[[], Told]) -> None:
    one = told()
    site.archive("n1", one)
    assert (site.said, site.records, site.waits("n1")) == ([], [f"12.{one.attempt}"], False)
