# SPDX-License-Identifier: Apache-2.0
"""What is old goes, what runs or is fresh stays, and nodes may write meanwhile."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stepguard.archive.index import append
from stepguard.archive.index_lines import entry_of
from stepguard.archive.index_reading import Query, search
from stepguard.archive.plain_files import read_manifest
from stepguard.archive.retention import Outcome, Rules, carry_out, plan
from unit.archive.stored import DAY_S, NOW_S, Archive, age

KEEP_90_DAYS = Rules(keep_s=90 * DAY_S)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


def doomed(archive: Archive, rules: Rules) -> list[str]:
    return [record.path.name for record in plan(archive.root, rules, NOW_S).doomed]


def spared(archive: Archive, rules: Rules) -> list[str]:
    return [f"{one.record.path.name} {one.why}" for one in plan(archive.root, rules, NOW_S).spared]


def prune(archive: Archive, rules: Rules, now_s: float = NOW_S) -> Outcome:
    return carry_out(plan(archive.root, rules, now_s), archive.root, now_s)


def ended(archive: Archive, job_id: int, days_ago: float, **more: object) -> Path:
    time_s = NOW_S - days_ago * DAY_S
    return archive.put(job_id, start_s=time_s - 60, end_s=time_s, **more)  # type: ignore[arg-type]


def test_age_counts_from_the_end_of_the_attempt(archive: Archive) -> None:
    ended(archive, 1, 91)
    ended(archive, 2, 89)
    # It ran for a hundred days, and has ended a day ago.
    archive.put(3, start_s=NOW_S - 101 * DAY_S, end_s=NOW_S - DAY_S)
    assert doomed(archive, KEEP_90_DAYS) == ["1.0"]


def test_a_plan_deletes_nothing(archive: Archive) -> None:
    old = ended(archive, 1, 91)
    plan(archive.root, KEEP_90_DAYS, NOW_S)
    assert sorted(path.name for path in old.iterdir()) == ["manifest.json", "nodes", "script", "stdout.zst"]
    assert len(archive.scripts()) == 1


def test_the_old_goes_with_its_script_and_its_empty_days(archive: Archive) -> None:
    old, young = ended(archive, 1, 91, script=b"old"), ended(archive, 2, 1, script=b"young")
    assert [record.path for record in prune(archive, KEEP_90_DAYS).deleted] == [old]
    assert not old.parent.parent.exists()
    assert (young / "script").read_bytes() == b"young"
    assert [path.read_bytes() for path in archive.scripts()] == [b"young"]
    assert not list((archive.cluster.root / "pruned").iterdir())


def test_a_script_stays_as_long_as_one_record_has_it(archive: Archive) -> None:
    ended(archive, 1, 91)
    young = ended(archive, 2, 1)
    assert prune(archive, KEEP_90_DAYS).scripts == 0
    assert archive.scripts()[0].samefile(young / "script")


def test_a_script_that_was_just_stored_stays_for_its_record_is_being_written(archive: Archive) -> None:
    script = archive.cluster.scripts / "1000" / ("0" * 64)
    script.parent.mkdir(parents=True)
    script.write_bytes(b"new")
    written_s = script.stat().st_mtime
    assert prune(archive, KEEP_90_DAYS, written_s + 3599).scripts == 0
    assert prune(archive, KEEP_90_DAYS, written_s + 3601).scripts == 1


@pytest.mark.parametrize("state", ["running", "ended"])
def test_what_runs_or_was_written_to_within_the_hour_stays(archive: Archive, state: str) -> None:
    path = archive.put(1, state=state, start_s=NOW_S - 400 * DAY_S, end_s=NOW_S - 300 * DAY_S)
    age(path / "nodes", NOW_S - 3500)  # a node was away, and has just brought its part
    everything = Rules(keep_s=0, max_bytes=0)
    assert doomed(archive, everything) == []
    assert spared(archive, everything) == [{"running": "1.0 unfinished", "ended": "1.0 fresh"}[state]]
    assert path.exists()


def test_an_attempt_that_never_ended_goes_when_no_node_has_written_to_it_for_long(archive: Archive) -> None:
    running = archive.put(1, state="running", start_s=NOW_S - 400 * DAY_S)
    parts_only = ended(archive, 2, 400, script=b"another")
    (parts_only / "manifest.json").unlink()
    age(parts_only, NOW_S - 399 * DAY_S)
    for rules in (Rules(abandoned_s=365 * DAY_S), KEEP_90_DAYS, Rules(max_bytes=0)):
        assert doomed(archive, rules) == ["1.0", "2.0"]
    age(running, NOW_S - 10 * DAY_S)  # it runs since 400 days
    assert doomed(archive, Rules(keep_s=90 * DAY_S)) == ["2.0"]
    assert spared(archive, Rules(keep_s=90 * DAY_S)) == ["1.0 unfinished"]
    assert doomed(archive, Rules(keep_s=90 * DAY_S, abandoned_s=9 * DAY_S)) == ["2.0", "1.0"]
    assert spared(archive, Rules(keep_s=90 * DAY_S, abandoned_s=500 * DAY_S)) == ["2.0 unfinished", "1.0 unfinished"]
    assert (doomed(archive, Rules(abandoned_s=500 * DAY_S)), spared(archive, Rules(abandoned_s=500 * DAY_S))) == (
        [],
        [],
    )
    age(running, NOW_S - 6 * DAY_S)
    assert spared(archive, Rules(max_bytes=0)) == ["1.0 unfinished"]


def spoil(path: Path, **fields: object) -> None:
    """What an owner may do with a file of theirs."""
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, **fields}))


@pytest.mark.parametrize("rules", [KEEP_90_DAYS, Rules(max_bytes=0)])
def test_owners_cannot_keep_a_record_by_what_they_do_with_their_files(archive: Archive, rules: Rules) -> None:
    paths = [ended(archive, job_id, 91) for job_id in range(1, 6)]
    for path in paths[0].iterdir():
        if path.is_file():
            os.utime(path, (NOW_S + 10 * 365 * DAY_S,) * 2)
    spoil(paths[1], end_s=NOW_S + 10 * 365 * DAY_S)
    spoil(paths[2], state="running")
    (paths[3] / "manifest.json").write_text("{")
    (paths[4] / "manifest.json").chmod(0)
    chosen = plan(archive.root, rules, NOW_S)
    assert sorted(record.path.name for record in chosen.doomed) == [f"{job_id}.0" for job_id in range(1, 6)]
    for path in paths:  # nor while it is being deleted
        os.utime(path / "stdout.zst")
    assert carry_out(chosen, archive.root, NOW_S).spared == []
    assert not any(path.exists() for path in paths)


def test_an_end_before_the_beginning_does_not_make_it_older_than_its_day(archive: Archive) -> None:
    spoil(ended(archive, 1, 89), end_s=0)
    assert doomed(archive, KEEP_90_DAYS) == []


def test_what_owners_let_grow_does_not_count_for_others(archive: Archive) -> None:
    grown, other = ended(archive, 1, 1), ended(archive, 2, 5, script=b"another")
    with (grown / "nodes/n1.json").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 40 << 20)
    found = plan(archive.root, Rules(max_bytes=20 << 20), NOW_S)
    assert found.total_bytes < 17 << 20
    assert found.doomed == []
    assert other.exists()


def test_a_lost_attempt_has_ended(archive: Archive) -> None:
    archive.put(1, state="lost", start_s=NOW_S - 400 * DAY_S)  # when, nobody knows: when it was last written
    assert doomed(archive, KEEP_90_DAYS) == ["1.0"]


def test_the_oldest_go_until_the_archive_is_small_enough(archive: Archive) -> None:
    for job_id, days_ago in ((1, 3), (2, 5), (3, 4)):
        ended(archive, job_id, days_ago, output=bytes(1 << 20), script=b"%d" % job_id)
    total = plan(archive.root, Rules(max_bytes=1 << 40), NOW_S).total_bytes
    assert 3 << 20 < total < 4 << 20
    assert doomed(archive, Rules(max_bytes=total)) == []
    assert doomed(archive, Rules(max_bytes=total - 1)) == ["2.0"]
    assert doomed(archive, Rules(max_bytes=total - (1 << 20) - (1 << 18))) == ["2.0", "3.0"]


def test_what_a_plan_frees_is_what_the_archive_takes_less_afterwards(archive: Archive) -> None:
    shared = b"s" * (1 << 18)
    for job_id in (1, 2):
        ended(archive, job_id, 91, script=shared)
    ended(archive, 3, 91, script=bytes(1 << 18))
    ended(archive, 4, 1, script=bytes(1 << 18))
    sizes = Rules(keep_s=90 * DAY_S, max_bytes=1 << 40)
    before = plan(archive.root, sizes, NOW_S)
    carry_out(before, archive.root, NOW_S)
    after = plan(archive.root, sizes, NOW_S)
    directories = 8 * 4096  # empty days, and CLUSTER/pruned, which is new
    assert abs(before.total_bytes - before.freed_bytes - after.total_bytes) <= directories
    assert before.freed_bytes > 1 << 18


def test_a_record_that_changed_after_it_was_chosen_is_put_back(archive: Archive) -> None:
    path = ended(archive, 1, 91)
    chosen = plan(archive.root, KEEP_90_DAYS, NOW_S)
    (path / "nodes" / "n2.json").write_text("{}")
    done = carry_out(chosen, archive.root, NOW_S)
    assert ([(one.record.path, one.why) for one in done.spared], done.deleted) == ([(path, "changed")], [])
    assert (path / "nodes" / "n2.json").read_text() == "{}"
    assert (path / "script").exists()


def test_a_record_that_is_gone_already_is_no_fault(archive: Archive) -> None:
    ended(archive, 1, 91)
    chosen = plan(archive.root, KEEP_90_DAYS, NOW_S)
    assert len(carry_out(chosen, archive.root, NOW_S).deleted) == 1
    assert carry_out(chosen, archive.root, NOW_S).deleted == []


def test_what_an_interrupted_run_left_aside_goes(archive: Archive) -> None:
    left = archive.cluster.root / "pruned" / "2026-01-01-7.0.4711"
    left.mkdir(parents=True)
    (left / "script").write_text("x")
    prune(archive, KEEP_90_DAYS)
    assert not left.exists()


def test_a_manifest_that_its_owner_has_overwritten_stops_nothing(archive: Archive) -> None:
    ended(archive, 1, 91)
    for job_id, text in ((2, "[" * 100_000), (3, '{"schema":1,"cluster":[],"end_s":"x"}'), (4, '{"schema":1}')):
        path = ended(archive, job_id, 91)
        (path / "manifest.json").write_text(text)
    endless = ended(archive, 5, 91)
    text = (endless / "manifest.json").read_text()
    (endless / "manifest.json").write_text(text.replace(f'"end_s":{NOW_S - 91 * DAY_S}', '"end_s":1e999'))
    for path in endless.parent.iterdir():
        if path.name != "1.0":
            age(path, NOW_S - DAY_S)
    assert sorted(doomed(archive, KEEP_90_DAYS)) == ["1.0", "2.0", "3.0", "4.0", "5.0"]


def test_the_index_forgets_what_was_deleted(archive: Archive) -> None:
    for job_id, days_ago in ((1, 91), (2, 1)):
        path = ended(archive, job_id, days_ago)
        where = str(path.relative_to(archive.cluster.root))
        manifest = read_manifest(path / "manifest.json")
        append(archive.cluster.root, "n1", entry_of(where, manifest, path.stat().st_uid, 0))

    def known() -> set[str]:
        return {found.entry.job_id for found in search([archive.cluster], Query())[0]}

    assert known() == {"1", "2"}
    prune(archive, KEEP_90_DAYS)
    assert known() == {"2"}
