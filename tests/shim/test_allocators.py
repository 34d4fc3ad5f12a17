# SPDX-License-Identifier: Apache-2.0
"""sbatch and salloc: the option is refused with the line to change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shim.built import Shim

INHERITED = "SLURM_SPANK__SLURM_SPANK_OPTION_stepguard_auto_resume"
SAID = "stepguard: --auto-resume guards one step and belongs on its srun, not on {}: "
STEP = "on line 7 of {}: srun --auto-resume=1 -n4 ./train --epochs 90"


def test_line_of_the_script(shim: Shim, job: Path) -> None:
    outcome = shim.run(["sbatch", "-J", "x", "job.sh", "90"], context="allocator", script=job, cwd=job.parent)
    assert outcome.status == 2
    assert outcome.lines == [
        SAID.format("sbatch") + "job.sh line 4: #SBATCH --auto-resume=1 -n4: remove it there, and on line 7 of job.sh "
        "write: srun --auto-resume=1 -n4 ./train --epochs 90"
    ]


@pytest.mark.parametrize("given", [["--auto-resume=1"], ["--auto-resume", "1"], ["--auto-res=0"], ["--auto-resume=x"]])
def test_command_line(shim: Shim, job: Path, given: list[str]) -> None:
    outcome = shim.run(["/usr/bin/sbatch", *given, "-J", "a b", "job.sh"], context="allocator", cwd=job.parent)
    assert outcome.status == 2
    assert outcome.lines == [
        SAID.format("sbatch") + f"/usr/bin/sbatch {' '.join(given)} -J 'a b' job.sh: write /usr/bin/sbatch -J 'a b' "
        "job.sh, and on line 7 of job.sh write: srun --auto-resume=1 -n4 ./train --epochs 90"
    ]


def test_salloc(shim: Shim) -> None:
    outcome = shim.run(["salloc", "--auto-resume=1", "-N4"], context="allocator")
    assert outcome.status == 2
    assert outcome.lines == [
        SAID.format("salloc")
        + "salloc --auto-resume=1 -N4: write salloc -N4, and write srun --auto-resume=1 in the job"
    ]


def test_environment(shim: Shim, job: Path) -> None:
    outcome = shim.run(["sbatch", str(job)], context="allocator", env={INHERITED: "1"})
    assert outcome.status == 2
    assert outcome.lines[0].startswith(SAID.format("sbatch") + f"{INHERITED} is set: unset it, and on line 7 of ")


def test_script_that_cannot_be_quoted(shim: Shim, job: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for script in (str(pipe), "/nonexistent", "/dev/zero", str(tmp_path)):
        outcome = shim.run(["sbatch", script], context="allocator", script=job)
        assert outcome.status == 2
        assert outcome.lines == [
            SAID.format("sbatch") + "the job script: remove it there, and write srun --auto-resume=1 in the job"
        ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-D", "there", "job.sh"], "there/job.sh"),
        (["--chdir=there", "job.sh"], "there/job.sh"),
        (["searched.sh"], "{there}/searched.sh"),
        (["-D", "nowhere", "searched.sh"], "{there}/searched.sh"),
        (["-D", "there", "./job.sh"], None),
        (["-D", "there", "none.sh"], None),
    ],
)
def test_script_is_quoted_from_where_sbatch_finds_it(
    shim: Shim, job: Path, tmp_path: Path, words: list[str], said: str | None
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    for name in ("job.sh", "searched.sh"):
        (there / name).write_bytes(job.read_bytes())
    path = {"PATH": f"{there}:{os.environ['PATH']}"}
    (tmp_path / "here/there").mkdir(parents=True)
    (tmp_path / "here/there/job.sh").write_bytes(job.read_bytes())
    outcome = shim.run(["sbatch", *words], context="allocator", script=job, cwd=tmp_path / "here", env=path)
    where = said.format(there=there) if said else ""
    assert (f"{where} line 4: #SBATCH" in outcome.lines[0]) is bool(said)
    assert outcome.lines[0].endswith(
        f"on line 7 of {where} write: srun --auto-resume=1 -n4 ./train --epochs 90"
    ) is bool(said)


@pytest.mark.parametrize(
    "components", [["-n1", ":", "--auto-resume=1", "-n2"], ["-n1", ":", "-n2", "--auto-resume", "1"]]
)
def test_component_of_a_heterogeneous_job(shim: Shim, job: Path, components: list[str]) -> None:
    outcome = shim.run(["sbatch", *components, str(job)], context="allocator", cwd=job.parent)
    assert outcome.status == 2
    (line,) = outcome.lines
    assert f": write sbatch -n1 : -n2 {job}, and on line 7 of {job} write: srun --auto-resume=1 -n4 " in line


def test_warning_instead(shim: Shim, job: Path) -> None:
    outcome = shim.run(
        ["sbatch", str(job)], context="allocator", script=job, plugstack="optional {plugin} misplaced=warn"
    )
    assert len(outcome.lines) == 2
    assert outcome.lines[1] == "stepguard: the job goes on without --auto-resume"
    assert outcome.plain["env"] == []
    assert outcome.plain["job_control"] == ""
    twice = "optional {plugin} misplaced=warn\noptional {plugin}"
    assert len(shim.run(["sbatch", str(job)], context="allocator", script=job, plugstack=twice).lines) == 2


def test_without_the_option(shim: Shim, tmp_path: Path) -> None:
    plain = shim.run(["sbatch", str(tmp_path / "job.sh")], context="allocator").plain
    assert plain["python"] == "0"
    assert plain["registered"] == "1"
