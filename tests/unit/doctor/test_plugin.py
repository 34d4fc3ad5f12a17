# SPDX-License-Identifier: Apache-2.0
"""A plugin that srun or slurmd could not load, or should not, is found before they do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stepguard.doctor.elf import Library, NotElf
from stepguard.doctor.plugin import PLUGIN, built_for, check_plugin, numbers
from stepguard.doctor.result import Level

SOURCE = 'const unsigned int plugin_version = {}; const char *bridge = "{}/lib/stepguard/bridge.so";'


@pytest.fixture
def installed(prefix: Path, compile_library: Callable[..., Path]) -> Path:
    """A PREFIX with a plugin built for 22.05.8 and a bridge."""
    for folder in (prefix / "lib/slurm", prefix / "lib/stepguard"):
        folder.mkdir(parents=True)
    plugin = prefix / PLUGIN
    plugin.write_bytes(compile_library(SOURCE.format(0x160508, prefix)).read_bytes())
    plugin.chmod(0o644)
    (prefix / "lib/stepguard/bridge.so").touch()
    return prefix


def test_a_plugin_for_this_release_is_well(installed: Path) -> None:
    (result,) = check_plugin(installed / PLUGIN, (22, 5, 11))
    assert result.level is Level.OK
    assert "built for Slurm 22.05" in result.found


def test_without_a_cluster_the_release_cannot_be_compared(installed: Path) -> None:
    (result,) = check_plugin(installed / PLUGIN, None)
    assert result.level is Level.UNKNOWN


def test_another_release_is_explained_with_the_command_that_rebuilds(installed: Path) -> None:
    (result,) = check_plugin(installed / PLUGIN, (24, 11, 5))
    assert result.level is Level.FAIL
    for part in ("built for Slurm 22.05.8", "srun here is 24.11.5", "Incompatible Slurm plugin"):
        assert part in result.found
    assert f"make install PREFIX={installed} SLURM_INCLUDE=" in result.advice


def test_a_missing_plugin_fails(prefix: Path) -> None:
    (result,) = check_plugin(prefix / PLUGIN, (22, 5, 8))
    assert (result.level, result.found) == (Level.FAIL, f"{prefix / PLUGIN} is missing")


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_plugin_that_users_cannot_read_fails(installed: Path, mode: int) -> None:
    (installed / PLUGIN).chmod(mode)
    (result,) = check_plugin(installed / PLUGIN, (22, 5, 8))
    assert result.level is Level.FAIL
    assert f"may not be read by others (mode {mode:04o})" in result.found


def test_a_plugin_that_others_can_replace_fails(installed: Path) -> None:
    (installed / "lib/slurm").chmod(0o777)
    (result,) = check_plugin(installed / PLUGIN, (22, 5, 8))
    assert result.level is Level.FAIL
    assert f"{installed}/lib/slurm may be written by everybody" in result.found
    assert "slurmd loads it as root" in result.advice


def test_an_installation_that_was_moved_fails(installed: Path, tmp_path: Path) -> None:
    moved = installed.with_name(installed.name + "-moved")
    installed.rename(moved)
    (result,) = check_plugin(moved / PLUGIN, (22, 5, 8))
    assert result.level is Level.FAIL
    assert f"built for PREFIX={installed}" in result.found
    assert f"PREFIX={moved}" in result.advice


@pytest.mark.parametrize("text", ["int x;", "const short plugin_version = 1;"])
def test_what_is_no_plugin_is_said_so(compile_library: Callable[..., Path], text: str) -> None:
    with pytest.raises(NotElf, match="no plugin of Slurm's"):
        built_for(Library.read(compile_library(text)))


def test_a_text_file_in_its_place_fails(installed: Path) -> None:
    (installed / PLUGIN).write_text("not a library")
    (result,) = check_plugin(installed / PLUGIN, (22, 5, 8))
    assert (result.level, result.found.rpartition(": ")[2]) == (Level.FAIL, "not a 64 bit ELF file")


@pytest.mark.parametrize(("release", "text"), [((22, 5, 8), "22.05.8"), ((26, 5), "26.05"), ((25, 11, 0), "25.11.0")])
def test_releases_are_written_as_slurm_writes_them(release: tuple[int, ...], text: str) -> None:
    assert numbers(release) == text
