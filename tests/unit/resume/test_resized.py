# SPDX-License-Identifier: Apache-2.0
"""The job's new nodes are left for the user's script, and no trouble with that ends a step."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path
from typing import Any

from stepguard.resume.resized import ResizeScript, content
from stepguard.slurm.records import Job

NAME = "slurm_job_71_resize.sh"


def job(*nodes: str, **changes: Any) -> Job:
    """A running job on these nodes, in its first run."""
    blank: dict[str, Any] = dict.fromkeys(Job._fields, "")
    return Job(**blank | {"id": "71", "nodes": nodes, "cpus_per_node": "8(x3)", "restart_count": 0} | changes)


def silent(text: str) -> None:
    """Fails when there is trouble."""
    raise AssertionError(text)


def test_a_shell_that_sources_it_has_the_new_nodes(tmp_path: Path) -> None:
    directory = tmp_path / "lab" / "71"
    script = ResizeScript(directory, job("n1", "n2", "n3", "n4"), silent)
    script.follow(job("n1", "n2", "n4"))
    names = "$SLURM_JOB_NODELIST $SLURM_NODELIST $SLURM_JOB_NUM_NODES $SLURM_NNODES $SLURM_JOB_CPUS_PER_NODE"
    shell = f". {directory / NAME} && echo {names} ${{SLURM_NTASKS-unset}} ${{SLURM_TASKS_PER_NODE-unset}}"
    old = {"SLURM_NTASKS": "4", "SLURM_TASKS_PER_NODE": "1(x4)", "SLURM_JOB_NODELIST": "n[1-4]"}
    done = subprocess.run(["sh", "-c", shell], env=old, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["n[1-2,4]", "n[1-2,4]", "3", "3", "8(x3)", "unset", "unset"]
    assert stat.S_IMODE((directory / NAME).stat().st_mode) == 0o700
    assert [path.name for path in directory.iterdir()] == [NAME]


def test_it_is_written_when_the_nodes_change_and_only_then(tmp_path: Path) -> None:
    path = tmp_path / NAME
    script = ResizeScript(tmp_path, job("n1", "n2"), silent)
    script.follow(job("n1", "n2"))
    script.follow(job())  # it waits in the queue
    assert not path.exists()
    script.follow(job("n1", "n3"))
    path.write_text("")
    script.follow(job("n1", "n3"))
    assert path.read_text() == ""
    script.follow(job("n1"))
    assert path.read_text() == content(["n1"], "8(x3)")


def test_cpus_that_slurm_did_not_say_are_left_as_they_are() -> None:
    assert "CPUS_PER_NODE" not in content(["n1"], "")


def test_the_file_of_an_earlier_run_is_taken_away(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text(content(["n1"], "8(x3)"))
    ResizeScript(tmp_path, job("n1", "n2"), silent)
    assert path.exists()
    ResizeScript(tmp_path, job("n1", "n2", restart_count=1), silent)
    assert not path.exists()
    ResizeScript(tmp_path / "none", job("n1", "n2", restart_count=1), silent)


def test_what_lies_in_its_way_is_told_once_and_ends_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    (tmp_path / NAME).mkdir()
    for directory in (blocked, tmp_path):
        told: list[str] = []
        script = ResizeScript(directory, job("n1", "n2", restart_count=1), told.append)
        script.follow(job("n1"))
        script.follow(job("n2"))
        assert len(told) == 1
        assert "cannot be written" in told[0]
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_link_in_its_way_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / NAME).symlink_to(target)
    ResizeScript(tmp_path, job("n1", "n2"), silent).follow(job("n1"))
    assert target.read_text() == "mine"
    assert (tmp_path / NAME).read_text() == content(["n1"], "8(x3)")
