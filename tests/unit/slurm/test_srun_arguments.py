# SPDX-License-Identifier: Apache-2.0
"""srun's command line, read and written back. Python's own getopt is the second opinion."""

from __future__ import annotations

import getopt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepguard.errors import UsageError
from stepguard.slurm.srun_arguments import SrunCommand, parse, with_overrides
from stepguard.slurm.srun_options import OPTIONS

DATA = Path(__file__).parents[2] / "data" / "slurm"


def given_options(command: SrunCommand) -> list[tuple[str, str | None]]:
    return [(option.name, option.value) for option in command.options]


@pytest.mark.parametrize(
    ("line", "options", "program"),
    [
        ("srun hostname -N3", [], "hostname"),
        ("srun -N3 x", [("nodes", "3")], "x"),
        ("srun -N 3 x", [("nodes", "3")], "x"),
        ("srun --nodes=3 x", [("nodes", "3")], "x"),
        ("srun --nodes 3 x", [("nodes", "3")], "x"),
        ("srun --parti gpu x", [("partition", "gpu")], "x"),
        ("srun -lN3 -n 4 x", [("label", None), ("nodes", "3"), ("ntasks", "4")], "x"),
        ("srun -luN 3 x", [("label", None), ("unbuffered", None), ("nodes", "3")], "x"),
        ("srun -K -k x", [("kill-on-bad-exit", None), ("no-kill", None)], "x"),
        ("srun -K0 -koff x", [("kill-on-bad-exit", "0"), ("no-kill", "off")], "x"),
        ("srun --pty bash", [("pty", None)], "bash"),
        ("srun --exclusive --overlap=force x", [("exclusive", None), ("overlap", "force")], "x"),
        ("srun --cpu_bind=none --pack-group=0 x", [("cpu-bind", "none"), ("het-group", "0")], "x"),
        ("srun -n1 -- -x", [("ntasks", "1")], "-x"),
        ("srun -J -- x", [("job-name", "--")], "x"),
        ("srun --export= x", [("export", "")], "x"),
        ("srun - x", [], "-"),
        ("srun -N2", [("nodes", "2")], ""),
        ("srun --container-image=a:b x", [("container-image", "a:b")], "x"),
    ],
)
def test_parse(line: str, options: list[tuple[str, str | None]], program: str) -> None:
    command = parse(line.split())
    assert given_options(command) == options
    assert command.program == program


def test_unknown_option_takes_the_word_before_the_program() -> None:
    words = ["srun", "--container-image", "ubuntu", "--container-remap-root", "-n1", "x", "y"]
    command = parse(words, command_at=5)
    expected = [("container-image", "ubuntu"), ("container-remap-root", None), ("ntasks", "1")]
    assert given_options(command) == expected
    assert command.program == "x"


def test_unknown_option_is_looked_up_in_the_help() -> None:
    asked: list[str] = []

    def help_text() -> str:
        asked.append("--help")
        return (
            "Options provided by plugins:\n      --container-image=[USER@]IMAGE  image\n      --container-writable  w\n"
        )

    words = ["srun", "--container-writable", "--container-image", "ubuntu", "-n1", "x"]
    command = parse(words, help_text=help_text)
    expected = [("container-writable", None), ("container-image", "ubuntu"), ("ntasks", "1")]
    assert given_options(command) == expected
    assert command.program == "x"
    assert asked == ["--help"]


def test_help_is_not_asked_without_need() -> None:
    def help_text() -> str:
        raise AssertionError("asked for help")

    assert parse(["srun", "--nodes", "2", "--mpi=none", "x"], help_text=help_text).program == "x"


@pytest.mark.parametrize("release", ["22.05", "24.11", "26.05"])
def test_help_tells_abbreviations_apart(release: str) -> None:
    """--extra-n fits one option; --extra is one itself from 23.11 on, and the beginning of another before."""
    help_text = (DATA / release / "srun-help.txt").read_text()
    assert parse(["srun", "--extra-n", "2", "x"]).program == "x"
    with pytest.raises(UsageError, match=r"--ov.*--overcommit, --overlap, --oversubscribe"):
        parse(["srun", "--ov", "x"], help_text=lambda: help_text)
    assert given_options(parse(["srun", "--sen", "x"], help_text=lambda: help_text)) == [("send-libs", None)]


def test_missing_value() -> None:
    with pytest.raises(UsageError, match="--nodes"):
        parse(["srun", "--nodes"])
    with pytest.raises(UsageError, match="-N"):
        parse(["srun", "-lN"])


_OPTION_WORDS = st.one_of(
    st.sampled_from(sorted(name for name, form in OPTIONS.items() if not form.endswith(":"))).map(lambda n: [f"--{n}"]),
    st.tuples(
        st.sampled_from(
            sorted(name for name, form in OPTIONS.items() if form.endswith(":") and not form.endswith("::"))
        ),
        st.text(alphabet="a-=:1/ ", max_size=4),
        st.booleans(),
    ).map(lambda t: [f"--{t[0]}={t[1]}"] if t[2] else [f"--{t[0]}", t[1]]),
    st.tuples(
        st.sampled_from("lusOQXZHEv"), st.sampled_from("Nnwxoeimptcr"), st.text(alphabet="a-=:1/", max_size=4)
    ).map(lambda t: [f"-{t[0]}{t[1]}{t[2]}"] if t[2] else [f"-{t[0]}{t[1]}", "value"]),
)
_LINES = st.tuples(
    st.lists(_OPTION_WORDS).map(lambda groups: [word for group in groups for word in group]),
    st.sampled_from([[], ["--"]]),
    st.lists(st.text(alphabet="ab-=: \n\udcff", max_size=4)).map(lambda rest: ["program", *rest]),
).map(lambda parts: ["srun", *parts[0], *parts[1], *parts[2]])


@given(_LINES)
def test_pythons_getopt_agrees(words: list[str]) -> None:
    short = "".join(form for form in OPTIONS.values() if form[:1].isalpha() and not form.endswith("::"))
    long = [name + ("=" if form.endswith(":") else "") for name, form in OPTIONS.items() if not form.endswith("::")]
    expected, rest = getopt.getopt(words[1:], short, long)
    command = parse(words)
    assert list(command.words[command.command_at :]) == rest
    assert [option.value or "" for option in command.options] == [value for _, value in expected]


@given(_LINES)
def test_no_override_changes_nothing(words: list[str]) -> None:
    assert with_overrides(parse(words), {}) == words


@given(_LINES)
def test_overrides_hold_and_the_rest_stays(words: list[str]) -> None:
    command = parse(words)
    overrides: dict[str, str | None] = {"nodelist": "n[1-3]", "nodes": "3", "overlap": None}
    again = parse(with_overrides(command, overrides, drop={"exclude", "label"}))
    assert again.words[again.command_at :] == command.words[command.command_at :]
    assert (again.nodes, again.nodelist, again.given("overlap")) == ((3, 3), "n[1-3]", True)
    assert not again.given("exclude")
    assert not again.given("label")
    touched = {*overrides, "exclude", "label"}

    def others(command: SrunCommand) -> list[tuple[str, str | None]]:
        return [(name, value) for name, value in given_options(command) if name not in touched]

    assert others(again) == others(command)


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("srun -N2 -w a x y", "srun --nodes=3 x y"),
        ("srun -lN2 -- x", "srun -l --nodes=3 -- x"),
        ("srun -lN 2 -uw a x", "srun -l -u --nodes=3 x"),
        ("srun --nodelist a --nodel=b x --nodes=9", "srun --nodes=3 x --nodes=9"),
        ("srun -J -- x", "srun -J -- --nodes=3 x"),
        ("srun", "srun --nodes=3"),
    ],
)
def test_with_overrides(line: str, written: str) -> None:
    assert with_overrides(parse(line.split()), {"nodes": "3"}, drop={"nodelist"}) == written.split()


@pytest.mark.parametrize(
    ("text", "nodes"),
    [("3", (3, 3)), ("2-5", (2, 5)), ("1k-2k", (1024, 2048)), ("2-6:2", (2, 6)), ("1,2,4", (1, 4)), ("many", None)],
)
def test_nodes(text: str, nodes: tuple[int, int] | None) -> None:
    assert parse(["srun", f"-N{text}", "x"]).nodes == nodes


def test_last_value_wins_and_the_command_line_over_the_environment() -> None:
    environment = {"SLURM_OPEN_MODE": "append", "SLURM_DISTRIBUTION": "arbitrary", "SLURM_JOB_NUM_NODES": "9"}
    command = parse(["srun", "-m", "block", "-m", "cyclic", "x"], environment=environment)
    assert (command.distribution, command.open_mode, command.nodes) == ("cyclic", "append", None)


def test_no_kill() -> None:
    assert not parse(["srun", "x"]).no_kill
    assert parse(["srun", "-k", "x"]).no_kill
    assert not parse(["srun", "--no-kill=off", "x"]).no_kill
    assert parse(["srun", "x"], environment={"SLURM_NO_KILL": "1"}).no_kill


def test_file_of_nodes() -> None:
    assert parse(["srun", "-w", "./hosts", "x"]).nodefile == "./hosts"
    assert parse(["srun", "-F", "hosts", "x"]).nodefile == "hosts"
    assert parse(["srun", "-w", "n1", "x"]).nodefile == ""


def test_components() -> None:
    assert parse(["srun", "-N1", "a", ":", "-N1", "b"]).is_het
    assert not parse(["srun", "-J", ":", "a"]).is_het
