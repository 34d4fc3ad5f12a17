# SPDX-License-Identifier: Apache-2.0
"""plugstack.conf is read as Slurm reads it, and stepguard's line is judged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stepguard.doctor import plugstack
from stepguard.doctor.plugstack import check_plugstack, configured_path, locate, own_lines
from stepguard.doctor.plugstack_file import read
from stepguard.doctor.result import Level, Result

SETTINGS_C = Path(__file__).parents[3] / "spank" / "settings.c"
LINE = "optional {prefix}/lib/slurm/stepguard.so"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o644)
    return path


def judged(prefix: Path, text: str, configless: bool = False) -> list[Result]:
    path = write(prefix / "plugstack.conf", text.format(prefix=prefix))
    return check_plugstack(path, prefix, configless)[0]


def test_the_arguments_are_those_of_the_plugin() -> None:
    """One table in C for the plugin, one here: held together."""
    source = SETTINGS_C.read_text()
    rows = re.findall(r'\{ "(\w+)", \{ ((?:"\w+",? ?)+)\} \}', source)
    assert {name: tuple(re.findall(r'"(\w+)"', values)) for name, values in rows} == plugstack.ALLOWED
    told = re.search(r'all_keys = "([^"]+)"', source)
    assert told is not None
    assert told[1] == plugstack._KNOWN


def test_comments_blanks_and_tabs_are_as_for_slurm(tmp_path: Path) -> None:
    text = "# optional /a.so\n\n  required\t/b.so one  two=2 # three\noptional /c.so#x\n"
    stack = read(write(tmp_path / "plugstack.conf", text))
    found = [(line.number, line.required, line.path, line.arguments) for line in stack.lines]
    assert found == [(3, True, "/b.so", ("one", "two=2")), (4, False, "/c.so", ())]
    assert not stack.troubles


def test_includes_are_followed_beside_the_file_and_in_order(tmp_path: Path) -> None:
    write(tmp_path / "conf.d/b.conf", "optional /b.so")
    write(tmp_path / "conf.d/a.conf", "optional /a.so")
    write(tmp_path / "c.conf", "optional /c.so")
    text = f"include conf.d/*.conf\ninclude {tmp_path}/c.conf\ninclude none.d/*\n"
    stack = read(write(tmp_path / "plugstack.conf", text))
    assert [line.path for line in stack.lines] == ["/a.so", "/b.so", "/c.so"]
    assert [count for _, _, count in stack.includes] == [2, 1, 0]


def test_an_include_of_itself_ends_and_is_told(tmp_path: Path) -> None:
    stack = read(write(tmp_path / "plugstack.conf", "include plugstack.conf\n"))
    assert stack.troubles == [f"{tmp_path}/plugstack.conf: includes itself"]


@pytest.mark.parametrize("line", ["maybe /a.so", "optional", "include", "Optional /a.so"])
def test_lines_that_slurm_stumbles_over_are_told(tmp_path: Path, line: str) -> None:
    stack = read(write(tmp_path / "plugstack.conf", f"\n{line}\n"))
    assert stack.lines == []
    assert "line 2 is not understood" in stack.troubles[0]


def test_a_missing_file_is_an_empty_one_and_a_folder_is_not(tmp_path: Path) -> None:
    assert read(tmp_path / "none.conf").troubles == []
    assert "do not start" in read(tmp_path).troubles[0]


def test_the_example_line_is_well(prefix: Path) -> None:
    (result,) = judged(prefix, LINE)
    assert result.level is Level.OK


@pytest.mark.parametrize(
    ("text", "level", "said"),
    [
        ("", Level.FAIL, "does not name stepguard"),
        ("optional /other/spank_pyxis.so", Level.FAIL, "does not name stepguard"),
        (LINE.replace("optional", "required"), Level.WARN, "no srun, sbatch or slurmd starts"),
        ("optional stepguard.so", Level.WARN, "PluginDir"),
        ("optional /elsewhere/stepguard.so", Level.WARN, "names /elsewhere/stepguard.so"),
        (f"{LINE}\n{LINE}", Level.WARN, "named 2 times"),
        (f"{LINE} lint=loud", Level.WARN, "lint=loud: not allowed"),
        (f"{LINE} misplaced", Level.WARN, "misplaced: not allowed"),
        (f"{LINE} verbose=1", Level.WARN, "verbose=1: unknown argument"),
        (f"{LINE} config", Level.WARN, "config: unknown argument"),
        (f"{LINE} config=stepguard.toml", Level.WARN, "not an absolute path"),
        (f"{LINE}\nwrong line", Level.WARN, "not understood"),
    ],
)
def test_what_is_wrong_with_the_line_is_said(prefix: Path, text: str, level: Level, said: str) -> None:
    (result,) = judged(prefix, text)
    assert result.level is level
    assert said in result.found
    assert result.advice


def test_all_arguments_that_the_plugin_takes_are_well(prefix: Path) -> None:
    arguments = [f"{key}={value}" for key, values in plugstack.ALLOWED.items() for value in values]
    (result,) = judged(prefix, f"{LINE} {' '.join(arguments)} config=/etc/stepguard/other.toml")
    assert result.level is Level.OK


def test_includes_that_configless_hosts_do_not_get_are_told(prefix: Path) -> None:
    write(prefix / "plugstack.conf.d/stepguard.conf", LINE.format(prefix=prefix))
    assert [result.level for result in judged(prefix, "include plugstack.conf.d/*.conf")] == [Level.OK]
    (result,) = judged(prefix, "include plugstack.conf.d/*.conf", configless=True)
    assert (result.level, "does not ship" in result.found) == (Level.WARN, True)


def test_a_file_that_users_cannot_read_fails(prefix: Path) -> None:
    write(prefix / "plugstack.conf", LINE.format(prefix=prefix)).chmod(0o600)
    results, _ = check_plugstack(prefix / "plugstack.conf", prefix, configless=False)
    assert [result.level for result in results] == [Level.FAIL]


def test_the_last_config_argument_counts(prefix: Path) -> None:
    path = write(prefix / "plugstack.conf", f"{LINE} config=/a.toml lint=off config=/b.toml".format(prefix=prefix))
    assert configured_path(own_lines(read(path))) == Path("/b.toml")


def test_it_lies_where_slurm_says_else_beside_slurm_conf(tmp_path: Path) -> None:
    conf = write(tmp_path / "slurm.conf", "ClusterName=lab\n plugstackconfig = /named/in/file.conf # here\n")
    environment = {"SLURM_CONF": str(conf)}
    assert locate(environment, {"PlugStackConfig": "/site/stack.conf"}) == Path("/site/stack.conf")
    assert locate(environment, {"PlugStackConfig": "", "ClusterName": "lab"}) == tmp_path / "plugstack.conf"
    assert locate(environment, {}) == Path("/named/in/file.conf"), "slurmctld does not answer"
    assert locate({}, {"SLURM_CONF": str(conf)}) == tmp_path / "plugstack.conf"
