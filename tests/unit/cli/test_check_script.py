# SPDX-License-Identifier: Apache-2.0
"""`stepguard check-script`."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stepguard.cli import check_files
from stepguard.cli.check_script import command
from stepguard.errors import UsageError

CLEAN = "#!/bin/bash\n#SBATCH --exclusive\nsrun --auto-resume=1 python train.py\n"
STALE = CLEAN.replace("python", "-w $SLURM_JOB_NODELIST python")
INFO = "#!/bin/bash\nsrun -w $SLURM_JOB_NODELIST python train.py\n"


def run(*words: str, stdin: str = "") -> Result:
    return CliRunner(env={"LC_ALL": "C.UTF-8"}).invoke(command, words, input=stdin, standalone_mode=False)


@pytest.mark.parametrize(
    ("text", "status"),
    [(CLEAN, 0), (STALE, 1), (INFO, 0), ("", 2), ("#!/bin/csh\necho\n", 2), (STALE.replace("bash", "csh"), 1)],
)
def test_exit_status(tmp_path: Path, text: str, status: int) -> None:
    file = tmp_path / "job.sbatch"
    file.write_text(text)
    assert run(str(file)).return_value == status


def test_file_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(str(tmp_path / "none"))
    assert result.return_value == 2
    assert "cannot be read" in result.stderr


def test_file_that_cannot_be_read_in_documents(tmp_path: Path) -> None:
    result = run("--json", str(tmp_path), "-", stdin=CLEAN)
    assert result.stderr.count(str(tmp_path)) == 1
    missing, read = json.loads(result.stdout)["files"]
    assert missing == {
        "file": str(tmp_path), "parse": "not-a-script", "guarded_steps": [], "findings": [], "error": "Is a directory",
    }  # fmt: skip
    assert "error" not in read
    (invocation,) = json.loads(run("--sarif", str(tmp_path)).stdout)["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    assert "Is a directory" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_for_people(tmp_path: Path) -> None:
    file = tmp_path / "job.sbatch"
    file.write_text(STALE)
    lines = run(str(file)).output.splitlines()
    assert lines[0].startswith(f"{file}:3:")
    assert "error SG201 SLURM_JOB_NODELIST → srun --nodelist on line 3" in lines[0]
    assert lines[1].strip() == STALE.splitlines()[2]
    assert lines[2].strip().startswith("why: ")
    assert any(line.strip().startswith("→ Ask there: $(stepguard nodes --list)") for line in lines)


def test_information_only_when_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "job.sbatch"
    file.write_text(INFO)
    assert run(str(file)).output == f"{file}: clean (1 more with --info)\n"
    assert "info SG201" in run("--info", str(file)).output


def test_json() -> None:
    (file,) = json.loads(run("--json", "-", stdin=STALE).output)["files"]
    assert file["file"] == "-"
    assert (file["parse"], file["guarded_steps"]) == ("ok", [{"line": 3, "conditional": False}])
    (finding,) = file["findings"]
    assert {name: finding[name] for name in ("rule", "kind", "severity", "line", "column")} == {
        "rule": "SG201",
        "kind": "stale-nodelist",
        "severity": "error",
        "line": 3,
        "column": 25,
    }
    assert finding["message"]
    assert finding["fix"]


def test_sarif(tmp_path: Path) -> None:
    file = tmp_path / "job one.sbatch"
    file.write_text(STALE)
    document = json.loads(run("--sarif", str(file)).output)
    (result,) = document["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("SG201", "error")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == f"file://{tmp_path}/job%20one.sbatch"
    assert place["region"] == {"startLine": 3, "startColumn": 25}
    assert "invocations" not in document["runs"][0]


def test_sarif_names_files_from_where_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/j#ü%.sh").write_text(STALE)
    monkeypatch.chdir(tmp_path)
    results = json.loads(run("--sarif", "./a/../a/j#ü%.sh").output)["runs"][0]["results"]
    uris = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results]
    assert uris == ["a/j%23%C3%BC%25.sh"]


@pytest.mark.parametrize(
    ("text", "told", "region"),
    [
        (CLEAN + "echo 'x\n", "read in part: there may be more to find", {"startLine": 4}),
        ("\x7fELF\0", "no script that can be read", None),
    ],
)
def test_sarif_calls_nothing_clean_that_was_not_read(
    tmp_path: Path, text: str, told: str, region: dict[str, int] | None
) -> None:
    file = tmp_path / "job.sh"
    file.write_text(text)
    (run_,) = json.loads(run("--sarif", str(file)).output)["runs"]
    (invocation,) = run_["invocations"]
    (one,) = invocation["toolExecutionNotifications"]
    assert (run_["results"], invocation["executionSuccessful"]) == ([], True)
    assert (one["level"], one["message"]["text"]) == ("warning", told)
    assert one["locations"][0]["physicalLocation"].get("region") == region


def test_explain() -> None:
    assert "SG201 stale-nodelist (error)" in run("--explain", "SG201").output
    assert run("--explain", "stale-nodelist").output == run("--explain", "sg201").output
    assert len(run("--explain", "all").output.splitlines()) == 8


def test_fix_prints_a_difference_and_writes_only_when_told(tmp_path: Path) -> None:
    file = tmp_path / "job.sbatch"
    file.write_bytes(CLEAN.replace("resume=1", "resume=yes").encode() + b"# \xe9\r\n")
    file.chmod(0o750)
    link = tmp_path / "link"
    link.symlink_to(file)
    assert "+srun --auto-resume=1 python train.py" in run("--fix", str(link)).output
    assert b"yes" in file.read_bytes()
    run("--fix", "--write", str(link))
    assert link.is_symlink()
    assert file.read_bytes() == CLEAN.encode() + b"# \xe9\r\n"
    assert file.stat().st_mode & 0o777 == 0o750


def test_file_stays_what_it_was_where_there_is_no_room(tmp_path: Path) -> None:
    file = tmp_path / "job.sbatch"
    before = CLEAN.replace(" --exclusive", "") + "# the end\n"
    file.write_text(before)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), limits[1]))
    try:
        result = run("--fix", "--write", str(file))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert result.return_value == 2
    assert "File too large" in result.stderr
    assert file.read_text() == before


@pytest.mark.parametrize(
    "words", [["--fix", "--json"], ["--fix", "--sarif"], ["--fix", "--info"], ["--fix", "--write", "-"]]
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, words: list[str]) -> None:
    file = tmp_path / "job.sbatch"
    file.write_text(CLEAN)
    assert isinstance(run("--fix", *words, str(file)).exception, UsageError)


def test_no_parser_is_loaded_by_other_verbs() -> None:
    code = "import sys; from stepguard.cli.group import group; group(['--version'], standalone_mode=False)\n"
    code += "assert not [name for name in sys.modules if 'tree_sitter' in name or 'stepguard.scripts' in name]"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("words", [["a"], ["--json", "--info", "a", "a"], ["a", "--sarif", "none"], ["none"]])
def test_without_click_it_is_the_same(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    Path("a").write_text(STALE)
    by_click = run(*words)
    assert check_files.main(words) == by_click.return_value
    assert (captured := capsys.readouterr()).out == by_click.stdout
    assert captured.err == by_click.stderr


@pytest.mark.parametrize("words", [[], ["--fix", "a"], ["--explain", "all"], ["-h"], ["--", "a"], ["--nothing", "a"]])
def test_click_reads_all_other_words(words: list[str]) -> None:
    assert check_files.main(words) is None


def test_a_clean_file_takes_few_imports(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(CLEAN)
    code = "import sys; sys.argv[1:] = ['check-script', 'a']\nfrom stepguard.__main__ import main; assert main() == 0\n"
    code += "assert not sys.modules.keys() & {'ast', 'click', 'json', 'tomllib', 'stepguard.config'} - loaded"
    # What the interpreter and dataclasses import is no choice of ours.
    head = "import dataclasses, sys; loaded = set(sys.modules)\n"
    subprocess.run([sys.executable, "-c", head + code], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
