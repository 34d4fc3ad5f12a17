# SPDX-License-Identifier: Apache-2.0
"""What slurmstepd tells of real jobs. No agent runs here, so that all of it is left as notes in each node's spool."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from captured import Captured, Message
from guarded import PLUGSTACK, until
from lab.cluster import Cluster
from product import installed
from shim.compiling import compiled
from test_slurm_syntax import EXPRESSIONS, scontrol


@pytest.fixture(scope="module")
def cluster() -> Iterator[Captured]:
    conf = {"SchedulerParameters": "permit_job_expansion,bf_interval=1"}
    with Cluster(nodes=3, plugstack=PLUGSTACK, prefix=installed(), slurm_conf=conf) as lab:
        yield Captured(lab)


@pytest.fixture
def captured(cluster: Captured) -> Captured:
    cluster.forget()
    return cluster


def exits(message: Message) -> list[tuple[int, int]]:
    """Rank and status of each task."""
    lines = [line.split() for line in message["exits"].split(b"\0")[:-1]]
    assert len(lines) == int(message["exits_count"])
    return sorted((int(rank), int(status)) for rank, status, _ in lines)


SCRIPTS = {
    "no newline at the end": "#!/bin/sh\ntrue",
    "binary": "#!/bin/sh\nexit 0\n" + "".join(map(chr, range(1, 9))) + "\udcff\udcfe\x7f\r \n\n",
    "4 MiB": "#!/bin/sh\nexit 0\n" + "#" * ((4 << 20) - 20),
    "for another shell": "#! /bin/bash -e\n#SBATCH -J named\n# ä\n",
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_script_as_it_was_submitted(captured: Captured, script: str) -> None:
    batch = captured.one(captured.sbatch(script), "batch")
    assert batch["script"] == os.fsencode(script)
    assert int(batch["script_size"]) == len(os.fsencode(script))


def test_arguments_of_a_script(captured: Captured) -> None:
    captured.lab.write("job.sh", "#!/bin/sh\n")
    job = captured.lab.run(["sbatch", "--parsable", "job.sh", "a b", "", "--lr=1"]).stdout.strip()
    captured.await_end(job)
    assert captured.one(job, "batch")["argv"].split(b"\0")[1:] == [b"a b", b"", b"--lr=1", b""]


def test_environment_of_the_job(captured: Captured) -> None:
    values = {"LINES_OF": "a\nb=c\n", "BROKEN": "\udcff\x01", "EMPTY": ""}
    big = {f"BIG{number}": str(number) * 90_000 for number in range(9)}
    batch = captured.one(captured.sbatch("#!/bin/sh\n", env={**values, **big}), "batch")
    entries = batch["environment"].split(b"\0")
    for name, value in {**values, **big, "HOME": str(captured.lab.home())}.items():
        assert os.fsencode(f"{name}={value}") in entries
    assert int(batch["environment_size"]) == len(batch["environment"])


@pytest.mark.parametrize("export", ["NONE", "NIL"])
def test_environment_that_is_not_handed_on(captured: Captured, export: str) -> None:
    if export == "NONE" and captured.lab.release.number >= (26, 5):
        pytest.skip("slurmd cannot become a user of the lab by su there, and holds the job")
    job = captured.sbatch("#!/bin/sh\n", f"--export={export}", "-J", "a b", env={"SECRET": "1"})
    entries = captured.one(job, "batch")["environment"].split(b"\0")
    assert f"SLURM_JOB_ID={job}".encode() in entries
    assert b"SLURM_JOB_NAME=a b" in entries
    assert b"SECRET=1" not in entries


# Options to the names of stdout and stderr, relative to the home; {j} is the job's id.
NAMES: dict[str, tuple[list[str], str, str]] = {
    "default": ([], "slurm-{j}.out", "slurm-{j}.out"),
    "pattern": (["-o", "%x-%j-%N-%u-%t-%%", "-J", "na me"], "na me-{j}-n1-alice-0-%", "na me-{j}-n1-alice-0-%"),
    "two files": (["-o", "%5j.out", "-e", "e/%J.err"], "{j:0>5}.out", "e/{j}.batch.err"),
    "one name twice": (["-o", "same", "-e", "same"], "same", "same"),
    "quotes": (["-o", 'it\'s "a" $HOME *'], 'it\'s "a" $HOME *', 'it\'s "a" $HOME *'),
    "bytes": (["-o", "\udcff\n\x1bé"], "\udcff\n\x1bé", "\udcff\n\x1bé"),
    "backslash": (["-o", "\\%j"], "%j", "%j"),
    "/dev/null": (["-o", "/dev/null"], "/dev/null", "/dev/null"),
    "stderr alone": (["-o", "/dev/null", "-e", "only-%j"], "/dev/null", "only-{j}"),
    "link": (["-o", "link"], "linked", "linked"),
}


@pytest.mark.parametrize(("options", "stdout", "stderr"), NAMES.values(), ids=NAMES)
def test_output_goes_where_it_is_said_to(captured: Captured, options: list[str], stdout: str, stderr: str) -> None:
    home = captured.lab.home()
    captured.lab.run(["sh", "-c", "mkdir -p e && ln -sf linked link"])
    job = captured.sbatch("#!/bin/sh\necho o-$SLURM_JOB_ID; echo e-$SLURM_JOB_ID >&2\n", "-w", "n1", *options)
    output = captured.one(job, "output")
    for name, expected in (("stdout", stdout), ("stderr", stderr)):
        path = Path(os.fsdecode(output[name]))
        device, inode, kind = output[f"{name}_id"].decode().split(":")
        if expected == "/dev/null":
            assert (str(path), kind) == ("/dev/null", "chr")
            continue
        assert kind == "reg"
        assert (int(device), int(inode)) == (path.stat().st_dev, path.stat().st_ino)
        assert f"{name[3]}-{job}\n" in path.read_text()
        assert path.parent in (home, home / "e")
        if "%J" not in " ".join(options) or name == "stdout":
            assert path == home / expected.format(j=job)
    assert (output["stdout_id"] == output["stderr_id"]) == (stdout == stderr)
    assert os.fsdecode(output["stdin"]) == "/dev/null"
    assert os.fsdecode(output["work_dir"]) == str(home)


def test_work_dir_and_input(captured: Captured) -> None:
    directory = captured.lab.home() / "a b"
    captured.lab.run(["mkdir", "-p", str(directory)])
    captured.lab.write("a b/in", "x\n")
    output = captured.one(captured.sbatch("#!/bin/sh\ncat\n", "-i", "in", "-D", str(directory)), "output")
    assert os.fsdecode(output["work_dir"]) == str(directory)
    assert os.fsdecode(output["stdin"]) == f"{directory}/in"
    assert os.fsdecode(output["stdout"]).startswith(f"{directory}/slurm-")


def test_array(captured: Captured) -> None:
    first = captured.lab.run(
        ["sbatch", "--parsable", "-a", "3,7", "-o", "%A-%a-%x.out", "-J", "arr", "--wrap", "exit $SLURM_ARRAY_TASK_ID"]
    ).stdout.strip()
    until("both tasks", lambda: len(captured.all_notes("step_end")) == 2, 30)
    seen = {}
    for output in captured.all_notes("output"):
        job = output["job_id"].decode()
        entries = captured.one(job, "batch")["environment"].split(b"\0")
        assert f"SLURM_ARRAY_JOB_ID={first}".encode() in entries
        ((_, status),) = exits(captured.one(job, "step_end"))
        seen[Path(os.fsdecode(output["stdout"])).name] = status >> 8
    assert seen == {f"{first}-3-arr.out": 3, f"{first}-7-arr.out": 7}


def test_two_nodes_with_steps(captured: Captured) -> None:
    script = (
        "#!/bin/bash\nsrun -l sh -c 'exit $SLURM_PROCID'\nsrun -N1 -n1 --nodelist=$(hostname) sh -c 'kill -9 $$'\n"
        "exit 3\n"
    )
    job = captured.sbatch(script, "-N2", "-w", "n[1-2]", "--ntasks-per-node=2")
    starts = {node: captured.one(job, "step_start", "0", node) for node in ("n1", "n2")}
    for index, (node, start) in enumerate(starts.items()):
        told = {name: start[name].decode() for name in list(start)[list(start).index("node_index") :]}
        assert told == {
            "node_index": str(index),
            "node_count": "2",
            "local_tasks": "2",
            "task_count": "4",
            "step_node_list": "n[1-2]",
            "job_node_list": "n[1-2]",
            "argv_size": "25",
            "argv": "sh\0-c\0exit $SLURM_PROCID\0",
        }
        end = captured.one(job, "step_end", "0", node)
        assert exits(end) == [(2 * index, 2 * index << 8), (2 * index + 1, (2 * index + 1) << 8)]
        assert int(end["boottime_ns"]) > int(start["boottime_ns"])
    second = captured.one(job, "step_start", "1")
    assert (second["step_node_list"], second["job_node_list"], second["node_count"]) == (b"n1", b"n[1-2]", b"1")
    assert exits(captured.one(job, "step_end", "1")) == [(0, 9)]
    assert exits(captured.one(job, "step_end", "batch")) == [(0, 3 << 8)]
    assert captured.notes(job, "finding") == []


def test_salloc_and_bare_srun(captured: Captured) -> None:
    done = captured.lab.run(
        ["salloc", "-N2", "sh", "-c", "echo $SLURM_JOB_ID; srun --overlap -N1 true; srun --overlap false"], check=False
    )
    job = done.stdout.strip()
    captured.await_end(job, "1", times=2)
    assert [message["argv"] for message in captured.notes(job, "step_start", "0")] == [b"true\0"]
    assert {message["argv"] for message in captured.notes(job, "step_start", "1")} == {b"false\0"}
    job = captured.lab.run(["srun", "-n2", "sh", "-c", "echo $SLURM_JOB_ID"]).stdout.split()[0]
    captured.await_end(job, "0")
    end = captured.one(job, "step_end", "0")
    assert exits(end) == [(0, 0), (1, 0)]
    assert captured.notes(job, "batch") == []
    assert "stale" not in done.stderr


def test_het_job(captured: Captured) -> None:
    script = (
        "#!/bin/bash\n#SBATCH -n1 -w n1\n#SBATCH hetjob\n#SBATCH -n2 -w n2\n"
        "srun true\nsrun --het-group=1 true\nsrun --het-group=0,1 true\n"
    )
    job = captured.sbatch(script, "-o", "het.out")
    second = str(int(job) + 1)
    assert captured.one(job, "batch")["script"] == script.encode()
    # The steps count on over the whole; each component is told under its own id.
    assert [message["step_id"] for message in captured.notes(job, "step_start")] == [b"0", b"2"]
    assert [message["local_tasks"] for message in captured.notes(second, "step_start")] == [b"2", b"2"]
    assert "stale" not in (captured.lab.home() / "het.out").read_text()
    assert captured.notes(job, "finding") == captured.notes(second, "finding") == []


def test_requeued_job(captured: Captured) -> None:
    script = '#!/bin/sh\nsrun true\n[ -n "$SLURM_RESTART_COUNT" ] || { scontrol requeue $SLURM_JOB_ID; sleep 60; }\n'
    path = captured.lab.write("job.sh", script)
    job = captured.lab.run(["sbatch", "--parsable", "--requeue", "-w", "n1", str(path)]).stdout.strip()
    captured.await_end(job)

    until("requeued", lambda: captured.state(job) == "PENDING", 30)
    time.sleep(1.5)  # slurmd starts nothing in the second in which it has revoked the job's credential
    captured.lab.run(["scontrol", "update", f"jobid={job}", "StartTime=now"], user="root")
    captured.await_end(job, times=2)
    counts = {kind: [m.get("restart_count") for m in captured.notes(job, kind)] for kind in ("step_start", "output")}
    assert counts == {"step_start": [None, b"1"], "output": [None, b"1"]}
    ends = captured.notes(job, "step_end", "batch")
    assert [end.get("restart_count") for end in ends] == [None, b"1"]
    assert len(captured.notes(job, "batch")) == 2


def _changed_job(captured: Captured, out: Path, commands: Sequence[str]) -> str:
    """Runs a job that is on n1 and n2 when it starts, and on n1 and n3 when it runs these commands."""
    lab = captured.lab
    go = lab.home() / "go"
    go.unlink(missing_ok=True)
    lines = "\n".join(commands)
    path = lab.write("job.sh", f"#!/bin/bash\nuntil [ -e {go} ]; do sleep 0.1; done\n{lines}\n")
    submit = ["sbatch", "--parsable", "-N2", "--ntasks-per-node=2", "-w", "n[1-2]", "-o", str(out), str(path)]
    job = lab.run(submit).stdout.strip()
    until("the job runs", lambda: captured.notes(job, "batch"), 20)
    helper = ["salloc", "--no-shell", f"--dependency=expand:{job}", "-N1", "-n2", "-w", "n3", "-J", f"helper-{job}"]
    lab.run(helper)
    helper_id = lab.run(["squeue", "-h", "-o", "%i", "-n", f"helper-{job}"]).stdout.strip()
    lab.run(["scontrol", "update", f"JobId={helper_id}", "NumNodes=0"], cwd=lab.shared)
    lab.run(["scontrol", "update", f"JobId={job}", "NumNodes=ALL"], cwd=lab.shared)
    lab.run(["scontrol", "update", f"JobId={job}", "NodeList=n[1,3]"], cwd=lab.shared)
    lab.write("go", "")
    captured.await_end(job)
    return job


SHOW = "sh -c 'echo $SLURM_PROCID $SLURM_JOB_NODELIST $SLURM_NODELIST $SLURM_JOB_NUM_NODES $SLURM_NNODES' | sort"


def test_stale_list_is_told(captured: Captured) -> None:
    out = captured.lab.home() / "stale.out"
    job = _changed_job(captured, out, [f"srun -N2 --ntasks-per-node=2 {SHOW}", "srun -Q -N1 -n1 -w n1 true"])
    line = (
        f"stepguard: SLURM_JOB_NODELIST is stale: step {job}.0 runs on n[1,3], the list says n[1-2]; "
        "use SLURM_STEP_NODELIST or: stepguard nodes"
    )
    assert out.read_text().splitlines() == [line, *(f"{rank} n[1-2] n[1-2] 2 2" for rank in range(4))]
    finding = captured.one(job, "finding")
    told = [finding[name].decode() for name in ("code", "text", "variable", "value", "step_id", "node")]
    assert told == ["stale-node-list", line, "SLURM_JOB_NODELIST", "n[1-2]", "0", "n1"]


def test_stale_list_is_repaired(captured: Captured) -> None:
    captured.configure("repair_nodelist = true")
    out = captured.lab.home() / "repaired.out"
    job = _changed_job(captured, out, [f"srun -N2 --ntasks-per-node=2 {SHOW}"])
    assert out.read_text().splitlines() == [f"{rank} n[1,3] n[1,3] 2 2" for rank in range(4)]
    assert captured.one(job, "finding")["code"] == b"stale-node-list"


def test_number_alone_put_right_after_a_shrink(captured: Captured) -> None:
    """srun takes no step of more nodes than the job has left, so this is what users do first."""
    script = (
        "#!/bin/bash\n(cd $(mktemp -d); scontrol update JobId=$SLURM_JOB_ID NodeList=n[1,3])\n"
        "srun -N2 true\nexport SLURM_JOB_NUM_NODES=2\nsrun true\n"
    )
    out = captured.lab.home() / "shrunk.out"
    job = captured.sbatch(script, "-N3", "-o", str(out))
    # The first step might be one on fewer nodes than the job has, and no file is at hand that says otherwise.
    lines = [line for line in out.read_text().splitlines() if line.startswith("stepguard: ")]
    assert lines == [
        f"stepguard: SLURM_JOB_NUM_NODES is stale: step {job}.1 runs on 2 nodes, the number says 2, "
        "SLURM_JOB_NODELIST n[1-3]; use SLURM_STEP_NUM_NODES or: stepguard nodes --count"
    ]


def test_nothing_is_left_where_no_agent_was_installed(captured: Captured) -> None:
    for node in captured.lab.nodes:
        spool = captured.lab.root(node) / "var/spool/stepguard"
        spool.rename(spool.with_name("elsewhere"))
    try:
        captured.lab.write("job.sh", "#!/bin/sh\nsrun true\n")
        captured.lab.run(["sbatch", "-W", "job.sh"])
        for node in captured.lab.nodes:
            assert not (captured.lab.root(node) / "var/spool/stepguard").exists()
    finally:
        for node in captured.lab.nodes:
            spool = captured.lab.root(node) / "var/spool/stepguard"
            spool.with_name("elsewhere").rename(spool)
    assert not [node for node in captured.lab.nodes if "error: stepguard" in captured.lab.node_log(node)]


def test_host_lists_in_c_are_those_of_slurm(captured: Captured, tmp_path: Path) -> None:
    texts = [text for text in EXPRESSIONS if text]
    program = compiled(tmp_path, "expand_lists", ["node_list"])
    text = "".join(f"{text}\n" for text in texts)
    done = subprocess.run([str(program)], input=text, capture_output=True, text=True, check=True)
    assert [line.strip() for line in done.stdout.splitlines()] == scontrol(captured.lab, "hostnames", texts)
