# SPDX-License-Identifier: Apache-2.0
"""Records are their owners', who may write anything into them: no verb lets any of it out to a terminal.

The texts are found by walking the records' own shapes, so that a field that is added is tested too.
"""

from __future__ import annotations

import ast
import dataclasses
import gc
import json
import os
import sys
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stepguard.cli
from stepguard.__main__ import main
from stepguard.archive.index import append
from stepguard.archive.index_lines import Entry, line_of
from stepguard.archive.index_rebuild import rebuild
from stepguard.records.manifest import FindingRecord, KeptFile, Manifest, NodeRecord
from stepguard.records.node_state import NodeState, to_record
from stepguard.report import screen
from unit.archive.building import DAY, START_S, entry, write_record

EVIL = "e\x1b[31m\nv\r\x07\u202ei\x9b2J\u2028l\udcff\x7f"
# Texts that must be so for the record to be found, or to be worth looking at.
WORDS = {
    "cluster": "lab",
    "job_id": "12",
    "kind": "batch",
    "state": "ended",
    "outcome": "cancelled",
    "status": "fail",
    "node_list": "n1",
    "lead_node": "n1",
    "node": "n1",
    "array_job_id": "",
    "het_job_id": "",
}
PARTS = ("script", "env", "stdout", "stderr", "health", "timeline", "resumes", "nodes")
EVENTS: tuple[dict[str, Any], ...] = (
    {"event": "start", "attempt": "0", "words": ["srun", "x"]},
    {"event": "end", "attempt": "0", "status": "1", "cause": "hardware", "why": "x", "nodes": ["n1"], "step_id": "0"},
    {"event": "choice", "strategy": "spare", "nodes": ["n1"], "passed_over": {"expand": "x"}},
    {"event": "health", "node": "n1", "text": "x", "source": "agent", "class": "x", "action": "x"},
    {"event": "batch-host-lost", "node": "n1", "seen_by": "n2"},
    {"event": "helper-ended", "helper": "13", "seen_by": "n2"},
)


def filled(wanted: Any, name: str = "") -> Any:
    """A value of that shape, with something in all of it."""
    origin, parts = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is types.UnionType:
        return filled(parts[0], name)
    if origin is list:
        return [filled(parts[0], name)]
    if origin is tuple:
        return (filled(parts[0], name),)
    if origin is dict:
        return {"x": filled(parts[1], name)}
    if dataclasses.is_dataclass(wanted):
        hints = typing.get_type_hints(wanted)
        return typing.cast(Any, wanted)(
            **{one.name: filled(hints[one.name], one.name) for one in dataclasses.fields(wanted)}
        )
    if wanted is str:
        return WORDS.get(name, "x")
    return {"uid": os.geteuid(), "attempt": 0, "schema": 1}.get(name, START_S if wanted is float else wanted(1))


def poisoned(value: Any) -> Iterator[tuple[str, Any]]:
    """Copies of a value, each with one of its texts evil, and which."""
    if isinstance(value, str):
        yield "", EVIL
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            for path, one in poisoned(getattr(value, field.name)):
                yield f".{field.name}{path}", dataclasses.replace(value, **{field.name: one})
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            for path, one in poisoned(inner):
                yield f"[{number}]{path}", type(value)([*value[:number], one, *value[number + 1 :]])
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield f".{key} as a key", {EVIL if name == key else name: kept for name, kept in value.items()}
            for path, one in poisoned(inner):
                yield f".{key}{path}", {**value, key: one}


def wholly(value: Any, keep: frozenset[str]) -> Any:
    """A copy with all texts evil, but those of fields with these names."""
    if isinstance(value, str):
        return EVIL
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {
            one.name: wholly(getattr(value, one.name), keep)
            for one in dataclasses.fields(value)
            if one.name not in keep
        }
        return dataclasses.replace(value, **changed)
    if isinstance(value, list | tuple):
        return type(value)(wholly(inner, keep) for inner in value)
    if isinstance(value, dict):
        return {key: inner if key in keep else wholly(inner, keep) for key, inner in value.items()}
    return value


def good_manifest() -> Manifest:
    files = {name: filled(KeptFile) for name in ("script", "environment", "stdout", "stderr", "resumes")}
    manifest: Manifest = filled(Manifest)
    return dataclasses.replace(manifest, files=files, nodes=["n1"])


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    archive = tmp_path / "archive"
    (archive / "lab").mkdir(parents=True)
    (tmp_path / "stepguard.toml").write_text(f'[archive]\ndir = "{archive}"\n')
    monkeypatch.setenv("STEPGUARD_CONFIG", str(tmp_path / "stepguard.toml"))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    yield archive
    gc.enable()  # verbs that end do without


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What a verb says on stdout and stderr, which no terminal would obey."""

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["stepguard", *words])
        main()
        captured = capsys.readouterr()
        for line in [*captured.out.split("\n"), *captured.err.split("\n")]:
            assert line.isprintable(), (words, line)
        if "--json" in words and captured.out:
            json.loads(captured.out)
        return captured.out + captured.err

    return run


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stdout is taken for one, for the parts that a pipe gets byte for byte."""
    monkeypatch.setattr(screen, "stdout_screen", lambda: screen.Screen(80))


def put(
    archive: Path, manifest: Manifest, node: NodeRecord, finding: FindingRecord, events: typing.Sequence[Any]
) -> Path:
    """The record, with a part of a node that is named n1 whatever it says."""
    directory = write_record(archive, manifest, name="12.0")
    (directory / "nodes/n1.json").write_text(json.dumps(dataclasses.asdict(node)))
    (directory / "findings.jsonl").write_text(json.dumps(dataclasses.asdict(finding)) + "\n")
    (directory / "resumes.jsonl").write_text("".join(json.dumps({"time": START_S, **one}) + "\n" for one in events))
    return directory


def look_everywhere(said: Callable[..., str], target: Path) -> None:
    """Runs every verb that reads records, and every part."""
    target.mkdir(exist_ok=True)
    for options in ([], ["--json"]):
        said("job", "12", *options)
        said("job", "12", "--attempt", "7", *options)
        for part in PARTS:
            said("job", "12", part, *options)
        for words in (["--all"], ["--all", "--since", "2026-01-01", "--limit", "1"], ["--state", "failed"]):
            said("jobs", *words, *options)
        said("archive", "verify", *options)
        said("archive", "prune", "--keep", "1h", "--abandoned", "8d", *options)
        said("health", "nodes", "--all", *options)
    said("archive", "export-xdmod", str(target))
    said("archive", "rebuild-index")


STATES = [
    {"state": "ended", "outcome": "cancelled"},
    {"state": "ended", "outcome": "completed"},
    {"state": "ended", "outcome": "ended"},
    {"state": "lost", "outcome": "lost"},
    {"state": "running", "outcome": ""},
    {"state": "ended", "outcome": "ended", "kind": "unknown"},
    {"state": EVIL, "outcome": EVIL, "kind": EVIL},
]


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("has_output", [True, False])
def test_nothing_of_a_record_steers_a_terminal(
    archive: Path, tmp_path: Path, said: Callable[..., str], state: dict[str, str], has_output: bool
) -> None:
    ids = frozenset({"job_id", "cluster", "node_list", "nodes", "lead_node", "node"})
    manifest = wholly(good_manifest(), ids)
    named = {name: wholly(filled(KeptFile), frozenset()) for name in good_manifest().files}
    manifest = dataclasses.replace(manifest, **state, files={**named, EVIL: filled(KeptFile)})
    node = wholly(filled(NodeRecord), ids | {"state", "status"})
    events = [wholly(one, frozenset({"event"})) for one in EVENTS]
    directory = put(archive, manifest, node, wholly(filled(FindingRecord), frozenset()), [*events, {"event": EVIL}])
    evil = EVIL.encode(errors="surrogateescape")
    if has_output:
        (directory / "script").write_bytes(evil * 20)
        (directory / "env.json").write_text(json.dumps({EVIL: EVIL}))
        (directory / "stdout.zst").write_bytes(b"no zstd")
    else:
        (directory / "resumes.jsonl").unlink()
    (directory / EVIL).touch()
    (archive / "lab/health").mkdir()
    told = wholly(filled(NodeState), frozenset({"node", "status"}))
    (archive / "lab/health/n1.json").write_text(json.dumps(to_record(told)))
    (archive / "lab/health" / f"{EVIL}.json").write_text("{}")
    rebuild(archive / "lab")
    page = said("job", "12")
    assert "e\\x1b[31m\\nv\\r\\x07\\u202ei" in page
    look_everywhere(said, tmp_path / "xdmod")


def test_no_single_text_of_a_record_does(archive: Path, said: Callable[..., str]) -> None:
    """One at a time: what is evil everywhere may never reach the line that forgot to escape it."""
    good = (good_manifest(), filled(NodeRecord), filled(FindingRecord), list(EVENTS))
    write_record(archive, good[0])
    rebuild(archive / "lab")
    places = 0
    for number, value in enumerate(good):
        for _, one in poisoned(value):
            put(archive, *(one if place == number else other for place, other in enumerate(good)))
            for part in ([], ["health"], ["timeline"], ["resumes"], ["nodes"], ["stderr"], ["env"]):
                said("job", "12", *part)
            places += 1
    assert places > 150


def test_nor_does_a_text_of_the_index(archive: Path, said: Callable[..., str]) -> None:
    good = entry(12, start_s=START_S)
    append(archive / "lab", "n1", good)
    texts = [name for name, value in good._asdict().items() if isinstance(value, str)]
    evil = [
        Entry(**{**good._asdict(), "path": f"{DAY}/{number}.0", name: EVIL})
        for number, name in enumerate(["", *texts], 12)
        if name
    ]
    raw = line_of(good, 1.0).replace(b"train", EVIL.encode(errors="surrogateescape"))
    with (archive / f"lab/index/{os.geteuid()}/n1.tsv").open("ab") as file:
        file.write(b"".join([*(line_of(one, 1.0) for one in evil), raw]))
    table = said("jobs", "--all", "--since", "2026-01-01")
    assert table.count("e\\x1b[31m") == 4  # name, user, nodes and partition; in others no line of ours has it
    said("jobs", "--all", "--since", "2026-01-01", "--json")
    for one in evil:
        said("job", one.path.rpartition("/")[2].partition(".")[0])


def test_an_id_that_is_none_does_not_name_a_job(archive: Path, said: Callable[..., str]) -> None:
    evil = dataclasses.replace(good_manifest(), array_job_id=EVIL, array_task_id="7")
    directory = put(archive, evil, filled(NodeRecord), filled(FindingRecord), [])
    (directory / "script").write_bytes(b"line\n" * 50)
    rebuild(archive / "lab")
    page = said("job", "12")
    assert page.startswith("Job 12 x: cancelled")
    assert "42 more lines: stepguard job 12 script" in page
    assert "no step of job 12 was guarded" in said("job", "12", "resumes")


_ALLOWED = {"output.py"}


@pytest.mark.parametrize("path", sorted(Path(stepguard.cli.__path__[0]).glob("*.py")), ids=lambda path: path.name)
def test_no_verb_prints_by_itself(path: Path) -> None:
    """All goes through cli/output.py and report/screen.py, which make it visible."""
    names = {ast.unparse(one.func) for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.Call)}
    printing = {"print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer.write"}
    assert path.name in _ALLOWED or not names & printing
