# SPDX-License-Identifier: Apache-2.0
"""The bridge must bring the libpython of the venv's own Python: real libraries, made to fit and not to fit."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stepguard.doctor.interpreter import _judge_bridge, check_interpreter
from stepguard.doctor.plugin import BRIDGE
from stepguard.doctor.result import Level, Result

OWN = platform.python_version()
SERIES = f"{sys.version_info.major}.{sys.version_info.minor}"
GET_VERSION = 'const char *Py_GetVersion(void) {{ return "{} (main) [GCC]"; }}'


@pytest.fixture
def judge(prefix: Path, compile_library: Callable[..., Path]) -> Callable[..., list[Result]]:
    """A function (name of libpython, its version, is it there) → what is said of a bridge that needs it."""

    def judged(name: str, version: str, present: bool = True) -> list[Result]:
        folder = prefix / "libpython"
        folder.mkdir()
        library = compile_library(GET_VERSION.format(version), f"-Wl,-soname,{name}")
        (folder / name).write_bytes(library.read_bytes())
        bridge = prefix / BRIDGE
        bridge.parent.mkdir(parents=True)
        bridge.write_bytes(
            compile_library("int ask(void) { return 0; }", str(library), f"-Wl,-rpath,{folder}").read_bytes()
        )
        bridge.chmod(0o644)
        if not present:
            (folder / name).unlink()
        return _judge_bridge(bridge, Path(sys.executable), OWN, "install again")

    return judged


Judge = Callable[..., list[Result]]


def test_the_same_python_is_well(judge: Judge) -> None:
    assert judge(f"libpython{SERIES}.so.1.0", OWN) == []


def test_another_series_fails(judge: Judge) -> None:
    (result,) = judge("libpython3.9.so.1.0", "3.9.2")
    assert (result.level, "built for libpython3.9.so.1.0" in result.found) == (Level.FAIL, True)


def test_another_build_of_the_series_is_told(judge: Judge) -> None:
    (result,) = judge(f"libpython{SERIES}.so.1.0", f"{SERIES}.99")
    assert (result.level, f"is Python {SERIES}.99, and" in result.found) == (Level.WARN, True)


def test_a_libpython_that_is_gone_fails(judge: Judge) -> None:
    (result,) = judge(f"libpython{SERIES}.so.1.0", OWN, present=False)
    assert (result.level, "which is not there" in result.found) == (Level.FAIL, True)
    assert f"libpython{SERIES}" in result.advice


def test_a_bridge_without_python_fails(prefix: Path, compile_library: Callable[..., Path]) -> None:
    (prefix / "bridge.so").write_bytes(compile_library("int x;").read_bytes())
    (result,) = _judge_bridge(prefix / "bridge.so", Path(sys.executable), OWN, "install again")
    assert (result.level, "brings no libpython" in result.found) == (Level.FAIL, True)


def test_a_python_that_does_not_run_fails(prefix: Path) -> None:
    (result,) = check_interpreter(prefix)
    assert (result.level, "venv/bin/python does not run" in result.found) == (Level.FAIL, True)


def test_a_python_without_stepguard_fails_with_pythons_own_words(prefix: Path) -> None:
    python = prefix / "venv/bin/python"
    python.parent.mkdir(parents=True)
    # The interpreter itself, outside of any environment: it finds its standard library and nothing else.
    python.symlink_to(Path(sys.executable).resolve())
    (result,) = check_interpreter(prefix)
    assert result.level is Level.FAIL
    assert "cannot import stepguard: ModuleNotFoundError" in result.found
