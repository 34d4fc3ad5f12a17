# SPDX-License-Identifier: Apache-2.0
"""`make install`: what lies where, for whom, and what an upgrade looks like from outside."""

from __future__ import annotations

import importlib.util
import os
import stat
import subprocess
import sysconfig
import threading
from pathlib import Path
from typing import Any

import pytest

from shim.built import REPOSITORY, Shim, build

PREFIX = "/opt/stepguard"


def make(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", "-C", str(REPOSITORY), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installed with DESTDIR, for /opt/stepguard."""
    stage = tmp_path_factory.mktemp("stage")
    done = make("install", f"DESTDIR={stage}")
    assert done.returncode == 0, done.stdout + done.stderr
    return stage


@pytest.mark.timeout(180)
def test_tree(stage: Path) -> None:
    root = stage / PREFIX.lstrip("/")
    assert [path.name for path in stage.iterdir()] == ["opt"]
    files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert (root / "venv").is_symlink()
    assert {name for name in files if not name.startswith(".venv.")} == {
        "bin/stepguard",
        "lib/slurm/stepguard.so",
        "lib/stepguard/bridge.so",
        *(f"libexec/stepguard/{name}" for name in ("prolog", "epilog", "health_check", "read_as")),
        *(
            f"share/stepguard/slurm-conf-examples/{path.name}"
            for path in (REPOSITORY / "slurm-conf-examples").iterdir()
        ),
        *(f"share/stepguard/systemd/{path.name}" for path in (REPOSITORY / "packaging/systemd").iterdir()),
    }
    assert {path.name.partition(".venv.")[0] for path in root.iterdir()} == {
        "bin",
        "lib",
        "libexec",
        "share",
        "venv",
        "",
    }
    programs = {path.name for path in (root / "venv/bin").iterdir()}
    assert all(name.startswith("python") for name in programs), "pip's scripts name the build directory"
    assert not [name for name in files if "/pip/" in name or "/setuptools/" in name]


def test_everybody_can_use_it_and_nobody_change_it(stage: Path) -> None:
    for path in (stage / PREFIX.lstrip("/")).rglob("*"):
        if path.is_symlink():
            continue
        mode = path.stat().st_mode
        assert mode & stat.S_IROTH, path
        assert not mode & (stat.S_IWGRP | stat.S_IWOTH), path
        assert path.stat().st_uid == os.geteuid(), path


def test_nothing_names_the_place_where_it_was_built(stage: Path) -> None:
    root = stage / PREFIX.lstrip("/")
    assert (root / "bin/stepguard").read_text().startswith(f"#!{PREFIX}/venv/bin/python -IS\n")
    named = [
        path
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and str(stage).encode() in path.read_bytes()
    ]
    assert named == []


def test_environment_works_from_anywhere(stage: Path) -> None:
    python = stage / PREFIX.lstrip("/") / "venv/bin/python"
    said = subprocess.run([python, "-I", "-m", "stepguard", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("stepguard ")
    assert said.stderr == ""


def test_upgrade_leaves_nothing_behind_but_the_environment_before(stage: Path) -> None:
    root = stage / PREFIX.lstrip("/")
    before = {path: path.stat().st_ino for path in (root / "lib").rglob("*.so")}
    (root / "venv/old").touch()
    for environments in (2, 2):
        assert make("install", f"DESTDIR={stage}").returncode == 0
        assert not (root / "venv/old").exists()
        assert len(list(root.glob(".venv.*"))) == environments
    # A new file each, for the old one may be mapped by programs that run.
    for path, inode in before.items():
        assert path.stat().st_ino != inode


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("PREFIX=opt/stepguard", "PREFIX must be an absolute path"),
        ("PREFIX=", "PREFIX must be an absolute path"),
        ("PREFIX=/opt/step guard", "no spaces"),
        ("DESTDIR=/tmp/a b", "no spaces"),
    ],
)
def test_places_that_cannot_work(argument: str, said: str) -> None:
    done = make("install", argument)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].startswith("stepguard: ")
    assert said in done.stderr


def test_python_without_shared_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("bridge_build", REPOSITORY / "spank/bridge_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert "-rpath," in module.flags("link")
    real = sysconfig.get_config_vars()
    monkeypatch.setattr(sysconfig, "get_config_vars", lambda: {**real, "Py_ENABLE_SHARED": 0})
    with pytest.raises(SystemExit, match="no shared libpython: use a distribution's Python"):
        module.flags("compile")


def test_headers_that_are_missing_are_named(tmp_path: Path) -> None:
    done = subprocess.run(
        ["make", "-s", "-C", str(REPOSITORY / "spank"), f"OUT={tmp_path}", "PREFIX=/x", "SLURM_INCLUDE=/nonexistent"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "no slurm/spank.h in /nonexistent: install libslurm-dev (Debian) or slurm-devel" in done.stderr


@pytest.mark.timeout(120)
def test_upgrade_under_steps_that_start(tmp_path: Path) -> None:
    """Files are swapped while guarded steps start: each finds the old installation or the new one."""
    shim: Shim = build(tmp_path, sanitized=False)
    swap = [str(REPOSITORY / "spank/install_venv.sh"), str(tmp_path / "venv"), str(shim.prefix), str(shim.prefix)]
    subprocess.run(["cp", "-a", str(shim.prefix / "venv"), str(tmp_path / "venv")], check=True)
    subprocess.run(swap, check=True)
    done = threading.Event()

    def upgrade() -> None:
        for _ in range(3):
            subprocess.run(swap, check=True)
        done.set()

    thread = threading.Thread(target=upgrade)
    thread.start()
    started = 0
    while not done.is_set():
        shim.run(["srun", "--auto-resume=1", "true"], env={"SLURM_JOB_ID": "71"}).supervised  # noqa: B018 - asserts
        started += 1
    thread.join()
    assert started >= 3
