# SPDX-License-Identifier: Apache-2.0
"""slurmd's hooks: named or not, ours or another's, whole or broken. The programs are ones that the compiler made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stepguard.doctor.hooks import LIBEXEC, PROGRAMS, check_hooks, named
from stepguard.doctor.result import Level


@pytest.fixture
def installed(prefix: Path, compile_library: Callable[..., Path]) -> Path:
    """A PREFIX with the four programs, epilog and health_check links to prolog as `make install` makes them."""
    folder = prefix / LIBEXEC
    folder.mkdir(parents=True)
    content = compile_library('const char *magic = "SGR1";').read_bytes()
    for name in ("prolog", "read_as"):
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o755)
    for name in ("epilog", "health_check"):
        (folder / name).symlink_to("prolog")
    return prefix


def both(prefix: Path) -> dict[str, str]:
    return {"Prolog": f"{prefix}/libexec/stepguard/prolog", "Epilog": f"{prefix}/libexec/stepguard/epilog"}


def test_both_hooks_are_well_and_prolog_flags_say_when(installed: Path) -> None:
    (result,) = check_hooks({**both(installed), "PrologFlags": ""}, installed)
    assert (result.level, "with the first step there" in result.found) == (Level.OK, True)
    (result,) = check_hooks({**both(installed), "PrologFlags": "Alloc,Contain"}, installed)
    assert (result.level, "as the job starts" in result.found) == (Level.OK, True)


def test_a_hook_that_is_not_named_is_a_hint(installed: Path) -> None:
    (result,) = check_hooks({"Prolog": both(installed)["Prolog"], "Epilog": "/site/epilog.sh"}, installed)
    assert result.level is Level.OK
    assert "no Epilog of stepguard's (Epilog=/site/epilog.sh)" in result.found
    assert result.advice.endswith("prolog-epilog.conf")
    (result,) = check_hooks({}, installed)
    assert "no Prolog and no Epilog" in result.found


def test_several_programs_and_patterns(installed: Path, tmp_path: Path) -> None:
    directory = tmp_path / "prolog.d"
    directory.mkdir()
    (directory / "50-stepguard").symlink_to(installed / LIBEXEC / "prolog")
    (directory / "10-site").touch()
    ours = both(installed)
    assert named({"Prolog": f"/site/prolog,{ours['Prolog']}"}, installed) == {"Prolog": ours["Prolog"]}
    assert named({"Prolog[0]": "/site/prolog", "Prolog[1]": ours["Prolog"]}, installed) == {"Prolog": ours["Prolog"]}
    assert named({"Prolog": f"{directory}/*"}, installed) == {"Prolog": f"{directory}/*"}
    assert named({"Prolog": f"{directory}/1*", "PrologSlurmctld": ours["Prolog"]}, installed) == {}


def test_the_hooks_of_another_installation(installed: Path, tmp_path: Path) -> None:
    other = {"Prolog": "/elsewhere/libexec/stepguard/prolog", "Epilog": both(installed)["Epilog"]}
    (result,) = check_hooks(other, installed)
    assert (result.level, f"not of the stepguard in {installed}" in result.found) == (Level.WARN, True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_is_missing(installed: Path, name: str) -> None:
    (installed / LIBEXEC / name).unlink()
    results = [result for result in check_hooks(both(installed), installed) if f"/{name}: missing" in result.found]
    assert [result.level for result in results] == [Level.FAIL if name in ("prolog", "epilog") else Level.WARN]
    assert results[0].advice == f"run `make install PREFIX={installed}`"


@pytest.mark.parametrize(
    ("content", "said"), [(b"#!/bin/sh\n", "not a 64 bit ELF file"), (None, "speaks other messages")]
)
def test_a_program_of_another_kind(
    installed: Path, compile_library: Callable[..., Path], content: bytes | None, said: str
) -> None:
    path = installed / LIBEXEC / "prolog"
    path.write_bytes(content or compile_library('const char *magic = "SGR0";').read_bytes())
    results = check_hooks(both(installed), installed)
    assert {result.level for result in results} == {Level.FAIL, Level.WARN}
    assert all(said in result.found for result in results)


def test_a_program_that_cannot_be_run_or_that_others_can_replace(installed: Path) -> None:
    path = installed / LIBEXEC / "read_as"
    path.chmod(0o644)
    path.parent.chmod(0o755)
    (result,) = check_hooks(both(installed), installed)
    assert (result.level, "read_as: not executable" in result.found) == (Level.WARN, True)
    path.chmod(0o757)
    (result,) = check_hooks(both(installed), installed)
    assert (result.level, "others can replace what slurmd runs as root" in result.found) == (Level.FAIL, True)
