# SPDX-License-Identifier: Apache-2.0
"""What nodes tell of their health lies in the archive beside the records, and is in nobody's way there."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
from pathlib import Path

import pytest

from stepguard.archive import retention
from stepguard.archive.archiver import Archiver
from stepguard.archive.index_rebuild import rebuild
from stepguard.archive.layout import ClusterLayout
from stepguard.archive.node_state import told_by
from stepguard.archive.ownership import OWNER_ONLY, Ownership
from stepguard.archive.regroup import regroup
from stepguard.archive.verification import Rules, verify
from stepguard.records.node_state import NodeState, to_record
from stepguard.records.spool import SpoolLayout
from unit.archive.spools import whole_job
from unit.archive.test_archiver import REDACTOR
from unit.records.test_node_state import STATE

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="directories of the archive are root's")
ADMINS = Ownership(12345, 0o751, 0o440)


class Node:
    """A node's spool, and its archiver a round at a time."""

    def __init__(self, root: Path, ownership: Ownership = OWNER_ONLY) -> None:
        self.spool, self.archive = SpoolLayout(root / "spool"), root / "archive"
        self.spool.jobs.mkdir(parents=True)
        self.archive.mkdir(mode=0o711)
        (self.spool.root / "here.json").write_text('{"node": "n1", "cluster": "lab"}')
        self.said: list[str] = []
        self._ownership = ownership
        self.restart()

    def restart(self) -> None:
        self.archiver = Archiver(self.spool, self.archive, REDACTOR, self._ownership, self.said.append)

    def tell(self, state: NodeState) -> None:
        """As the agent does it: a new file, renamed."""
        new = self.spool.root / ".node.json.new"
        new.write_text(json.dumps(to_record(state)))
        new.rename(self.spool.node_state)

    def round(self, begun_s: float = 0.0) -> None:
        self.archiver._round(begun_s)

    @property
    def health(self) -> Path:
        return self.archive / "lab/health"

    @property
    def layout(self) -> ClusterLayout:
        return ClusterLayout(self.archive / "lab")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_it_goes_into_the_archive_when_it_has_changed(node: Node) -> None:
    node.round()
    assert not node.layout.root.exists(), "a node that never had trouble"
    node.tell(STATE)
    node.round()
    path = node.health / "n1.json"
    assert [one.state for one in told_by(node.layout)] == [STATE]
    assert [entry.name for entry in node.health.iterdir()] == ["n1.json"]
    first = path.stat().st_ino
    node.restart()
    node.tell(STATE)
    node.round()
    assert path.stat().st_ino == first, "the same is not written again"
    better = dataclasses.replace(STATE, status="ok", action="none", items=())
    node.tell(better)
    node.round()
    assert [one.state for one in told_by(node.layout)] == [better]
    assert node.said == []


@pytest.mark.parametrize(("ownership", "modes"), [(OWNER_ONLY, (0o711, 0o400)), (ADMINS, (0o751, 0o440))])
def test_root_and_the_administrators_may_read_it(tmp_path: Path, ownership: Ownership, modes: tuple[int, int]) -> None:
    node = Node(tmp_path, ownership)
    node.tell(STATE)
    node.round()
    for path, mode in zip((node.health, node.health / "n1.json"), modes, strict=True):
        status = path.stat()
        assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (0, mode)
        assert ownership.group_id in (-1, status.st_gid)
    assert regroup(node.layout.root, ADMINS) == (0 if ownership is ADMINS else 1)
    assert (node.health / "n1.json").stat().st_gid == ADMINS.group_id
    assert stat.S_IMODE(node.health.stat().st_mode) == ADMINS.directory_mode


@pytest.mark.parametrize("name", ["../n1", "n1/x", "", ".n1", "n 1"])
def test_a_name_that_is_none_becomes_no_path(node: Node, name: str) -> None:
    node.tell(dataclasses.replace(STATE, node=name))
    node.round()
    assert list(node.archive.iterdir()) == []


def test_before_the_cluster_has_a_name_it_waits(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepguard.archive.local_cluster._PLACES", ())
    monkeypatch.delenv("SLURM_CONF", raising=False)
    (node.spool.root / "here.json").unlink()
    node.restart()
    node.tell(STATE)
    node.round()
    assert list(node.archive.iterdir()) == []


def test_an_archive_that_is_away_gets_it_later_and_says_so_once(node: Node) -> None:
    node.tell(STATE)
    node.archive.rmdir()
    for _ in range(3):
        node.round()
    assert [line for line in node.said if "takes nothing" in line] == node.said
    assert len(node.said) == 1
    node.archive.mkdir(mode=0o711)
    node.round()
    assert (node.health / "n1.json").exists()
    assert "takes records again" in node.said[-1]


def test_what_is_in_its_way_keeps_no_record_back(node: Node) -> None:
    node.health.mkdir(parents=True)
    node.health.chmod(0o777)  # others could put something there
    whole_job().put(node.spool.root)
    node.tell(STATE)
    node.round()
    node.round(1.0)
    assert "what is told of this node is not in the archive, tried again later" in node.said[0]
    assert len(node.said) == 1
    assert list(node.health.iterdir()) == []
    assert not any(node.spool.jobs.iterdir())
    node.health.chmod(0o711)
    node.round(1000.0)
    assert (node.health / "n1.json").exists()


def test_garbage_in_the_spool_is_said_once(node: Node) -> None:
    node.spool.node_state.write_text("garbage")
    node.round()
    node.round()
    assert node.said == [
        "what is told of this node is left out: node.json in the spool: "
        "not JSON: Expecting value: line 1 column 1 (char 0)"
    ]


def test_odd_files_are_named_and_the_others_read(node: Node) -> None:
    node.tell(STATE)
    node.round()
    (node.health / "n2.json").write_text("garbage")
    (node.health / "n3.json").symlink_to("n1.json")
    (node.health / "n4.json").mkdir()
    os.mkfifo(node.health / "n5.json")
    (node.health / "n6.json").write_bytes(b" " * (1 << 20))
    (node.health / "n7.json").write_text(json.dumps({**to_record(STATE), "schema": 2}))
    (node.health / "n8.json").write_text(json.dumps(to_record(STATE)))
    (node.health / "notes.txt").write_text("")
    (node.health / ".n9.json.n9.new").write_text("")
    told = {one.path.name: one.why or one.state for one in told_by(node.layout)}
    assert told.pop("n1.json") == STATE
    assert told.pop("n7.json") == "schema 2, this stepguard knows up to 1"
    assert told == {
        "n2.json": "not JSON: Expecting value: line 1 column 1 (char 0)",
        "n3.json": "a link",
        "n4.json": "not a regular file",
        "n5.json": "not a regular file",
        "n6.json": "larger than 262144 bytes",
        "n8.json": "of the node 'n1'",
        "notes.txt": "not the name of a node's file",
    }


def test_prune_verify_and_rebuild_leave_it_alone(node: Node) -> None:
    whole_job().put(node.spool.root)
    node.tell(STATE)
    node.round()
    node.round()
    [(_, damages)] = verify(node.archive, Rules())
    assert [damage.file for damage in damages] == ["nodes/n2.json"], "the other node of the job, which is not there"
    assert rebuild(node.layout.root) == 1
    now_s = 4_000_000_000.0
    chosen = retention.plan(node.archive, retention.Rules(keep_s=0.0, max_bytes=0), now_s)
    assert len(retention.carry_out(chosen, node.archive, now_s).deleted) == 1
    assert [one.state for one in told_by(node.layout)] == [STATE]
