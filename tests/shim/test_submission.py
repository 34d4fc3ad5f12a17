# SPDX-License-Identifier: Apache-2.0
"""sbatch looks at its job script: what it finds, what it leaves alone, and that nothing of it harms a submission.

Whether Python was asked, a broken bridge tells: with lint=reject, sbatch says that the script was not checked."""

from __future__ import annotations

import json
import os
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.built import REPOSITORY, Outcome, Shim

STALE = "MASTER=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -1)\n"
MISUSE = f"#!/bin/bash\n#SBATCH -N2 --exclusive\n{STALE}srun --auto-resume=1 torchrun --rdzv-endpoint=$MASTER a.py\n"
GUARDED = "#!/bin/bash\nsrun --auto-resume=1 ./train\n"
UNGUARDED = f"#!/bin/bash\n{STALE}srun ./train $MASTER\n"
REJECT = "optional {plugin} lint=reject"
NOT_CHECKED = "stepguard: the job script was not checked: "
NOTHING = "stepguard: nothing is submitted: "
CORPUS = REPOSITORY / "tests/data/scripts"


@pytest.fixture
def sbatch(shim: Shim, tmp_path: Path) -> Callable[..., Outcome]:
    """Calls sbatch in a directory of its own."""

    def call(*words: str, plugstack: str = "optional {plugin}", **more: Any) -> Outcome:
        return shim.run(["sbatch", *words], context="allocator", plugstack=plugstack, cwd=tmp_path, **more)

    return call


@pytest.fixture
def asks(shim: Shim, tmp_path: Path) -> Iterator[Callable[..., bool]]:
    """Whether an sbatch asks Python: there is none, and it says so."""
    kept = shim.bridge.with_suffix(".kept")
    shim.bridge.rename(kept)

    def call(*words: str, plugstack: str = REJECT, program: str = "sbatch", **more: Any) -> bool:
        outcome = shim.run([program, *words], context="allocator", plugstack=plugstack, cwd=tmp_path, **more)
        assert outcome.plain["python"] == "0"
        assert len(outcome.lines) <= 1
        assert all(line.startswith(NOT_CHECKED + "cannot load the bridge: ") for line in outcome.lines)
        return bool(outcome.lines)

    yield call
    kept.rename(shim.bridge)


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# -- what is told -----------------------------------------------------------------------------------------------------


def test_stale_list_is_told_with_its_line(sbatch: Callable[..., Outcome], tmp_path: Path) -> None:
    write(tmp_path / "job.sh", MISUSE)
    outcome = sbatch("-J", "x", "job.sh", "90")
    assert len(outcome.lines) == 1
    assert outcome.lines[0].startswith("stepguard: job.sh:3: error SG201: ")
    assert "stepguard nodes --first" in outcome.lines[0]
    assert outcome.plain["python"] == "0"
    assert outcome.plain["env"] == []
    refused = sbatch("job.sh", plugstack=REJECT)
    assert refused.status == 2
    assert refused.stdout == ""
    assert refused.lines[0] == outcome.lines[0]
    assert refused.lines[1].startswith(NOTHING)
    assert "# stepguard: ignore[RULE]" in refused.lines[1]
    assert len(refused.lines) == 2
    assert sbatch("job.sh", plugstack="optional {plugin} lint=off").stderr == ""
    assert sbatch("job.sh", env={"HOST_THREAD": "1"}).lines == outcome.lines


@pytest.mark.parametrize(
    "script",
    [
        MISUSE.replace("head -1)", "head -1) # stepguard: ignore[SG201]"),
        f"#!/bin/bash\necho $SLURM_JOB_NODELIST\n#{STALE}{GUARDED}",
        "#!/bin/bash\n#SBATCH --exclusive\nsrun --auto-resume=1 sh -c 'NODELIST=$(stepguard nodes --list) ./train'\n",
        MISUSE.replace("#!/bin/bash", "#!/bin/false-\0"),
    ],
)
def test_what_is_right_is_submitted_in_silence(sbatch: Callable[..., Outcome], tmp_path: Path, script: str) -> None:
    write(tmp_path / "job.sh", script)
    outcome = sbatch("job.sh", plugstack=REJECT)
    assert outcome.stderr == ""
    assert outcome.plain["env"] == []


def test_nodes_that_may_be_shared_are_no_reason_to_refuse(sbatch: Callable[..., Outcome], tmp_path: Path) -> None:
    write(tmp_path / "job.sh", f"#!/bin/bash\n#SBATCH -N2\n{UNGUARDED.splitlines()[1]}\n{GUARDED.splitlines()[1]}\n")
    outcome = sbatch("job.sh", plugstack=REJECT)
    assert (outcome.status, len(outcome.lines)) == (0, 1)
    assert outcome.lines[0].startswith("stepguard: job.sh:4: warning SG304: ")
    assert sbatch("job.sh", plugstack=REJECT, env={"SBATCH_EXCLUSIVE": "exclusive"}).stderr == ""
    write(tmp_path / "job.sh", MISUSE.replace(" --exclusive", ""))
    outcome = sbatch("job.sh", plugstack=REJECT)
    assert (outcome.status, len(outcome.lines)) == (2, 3)


def test_ten_lines_at_most(sbatch: Callable[..., Outcome], tmp_path: Path) -> None:
    uses = "".join(f"srun --auto-resume=1 -w $SLURM_JOB_NODELIST ./part{number}\n" for number in range(30))
    write(tmp_path / "my job.sh", f"#!/bin/bash\n#SBATCH --exclusive\n{uses}")
    lines = sbatch("my job.sh", plugstack=REJECT).lines
    assert len(lines) == 10
    assert [line.split(":")[1:3] for line in lines[:8]] == [[" my job.sh", str(3 + number)] for number in range(8)]
    assert lines[8] == "stepguard: … and 22 more: stepguard check-script 'my job.sh'"
    assert lines[9].startswith(NOTHING)


def test_terminal_obeys_nobody(sbatch: Callable[..., Outcome], tmp_path: Path) -> None:
    name = "a\x1b]0;x\x07\n\udcff\u202e\u009bZ" + "é" * 90 + ".sh"
    odd = "\x1b[2J\r\x08‮\u0085" * 50
    write(
        tmp_path / name,
        (
            f"#!/bin/bash\n#SBATCH --exclusive\nA{odd}=1\nMASTER='{odd}'$SLURM_JOB_NODELIST\n"
            f"srun --auto-resume=1 torchrun '--rdzv-endpoint={odd}'$MASTER a.py\n" * 20
        ).encode(errors="surrogateescape"),
    )
    outcome = sbatch(name, plugstack=REJECT)
    assert outcome.status == 2
    assert len(outcome.lines) <= 10
    assert all(line.isprintable() and line.startswith("stepguard: ") for line in outcome.stderr.split("\n")[:-1])


def test_one_look_at_one_script(sbatch: Callable[..., Outcome], tmp_path: Path) -> None:
    write(tmp_path / "job.sh", MISUSE)
    assert len(sbatch("job.sh", plugstack="optional {plugin}\noptional {plugin}").lines) == 1
    assert len(sbatch("-N1", ":", "-N2", "job.sh", ":", "job.sh").lines) == 1
    assert len(sbatch("-N1", ":", "-N2", ":", "job.sh", plugstack="optional {plugin}\noptional {plugin}").lines) == 1


def test_misplaced_option_is_told_once(sbatch: Callable[..., Outcome], tmp_path: Path) -> None:
    script = write(tmp_path / "job.sh", MISUSE.replace("--exclusive", "--auto-resume=1"))
    outcome = sbatch("job.sh", plugstack="optional {plugin} misplaced=warn", script=script)
    assert len(outcome.lines) == 2
    assert outcome.lines[1] == "stepguard: the job goes on without --auto-resume"


# -- which script -----------------------------------------------------------------------------------------------------


def test_script_is_found_as_sbatch_finds_it(sbatch: Callable[..., Outcome], tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    for folder in (there, here):
        folder.mkdir()
    path = {"PATH": f"/nonexistent::{here}:{there}:{os.environ['PATH']}"}
    write(there / "job.sh", MISUSE)
    assert sbatch("job.sh", env=path).lines[0].startswith(f"stepguard: {there}/job.sh:3: ")
    assert sbatch("./job.sh", env=path).stderr == ""
    assert sbatch("there/job.sh", env=path).lines[0].startswith("stepguard: there/job.sh:3: ")
    assert sbatch(str(there / "job.sh"), env={"PATH": ""}).lines[0].startswith(f"stepguard: {there}/job.sh:3: ")
    (tmp_path / "job.sh").mkdir()  # no script, so the search goes on
    assert sbatch("job.sh", env=path).lines[0].startswith(f"stepguard: {there}/job.sh:3: ")
    write(here / "job.sh", GUARDED)
    assert sbatch("job.sh", env=path).stderr == ""
    for given in (["-D", "there"], ["-vDthere"], ["--chdir=there"], ["-Dhere", "--chd", f"{there}"]):
        assert sbatch(*given, "job.sh", env=path).lines[0].startswith("stepguard: "), given
        assert sbatch(*given, "here/job.sh", env=path).stderr == ""


def test_other_words_are_no_script(asks: Callable[..., bool], tmp_path: Path) -> None:
    write(tmp_path / "job.sh", MISUSE)
    write(tmp_path / "good.sh", GUARDED)
    assert asks("job.sh")
    assert asks("-n", "2", "job.sh", program="/opt/slurm/bin/sbatch.real")
    assert not asks("good.sh", "job.sh")
    assert not asks("-J", "job.sh")
    with (tmp_path / "job.sh").open() as script:
        assert not asks("-J", "job.sh", stdin=script)
    for program in ("salloc", "scrontab", "scrun"):
        assert not asks("job.sh", program=program)
    assert not asks("job.sh", plugstack="optional {plugin} lint=off")
    assert not asks("job.sh", plugstack="optional {plugin}\noptional {plugin}")


# -- what mentions both -----------------------------------------------------------------------------------------------


def test_mentions(asks: Callable[..., bool], tmp_path: Path) -> None:
    for nodes in (
        "$SLURM_JOB_NODELIST",
        "${SLURM_NODELIST}",
        "SLURM_JOB_NODELIST_HET_GROUP_1",
        "SLURM_NNODES",
        "SLURM_JOB_NUM_NODES_PACK_GROUP_0",
        "${JOB}_NODELIST",
        "scontrol show hostnames",
        "scontrol show hostname",
    ):
        for option in ("--auto-resume=1", "--auto-res 1", "A=auto-resume=1", "..._stepguard_auto_resume"):
            for script in (f"#!/bin/bash\n{nodes}\n{option}\n", f"#!/bin/bash\n{option}\n{nodes}"):
                write(tmp_path / "job.sh", script)
                assert asks("job.sh"), script


@pytest.mark.parametrize("script", [GUARDED, UNGUARDED, "", "#!/bin/bash\nsrun --auto --nodes $(hostname) --names\n"])
def test_no_python_without_both(asks: Callable[..., bool], tmp_path: Path, script: str) -> None:
    write(tmp_path / "job.sh", script)
    assert not asks("job.sh")


def test_no_finding_of_the_corpus_is_missed(asks: Callable[..., bool], shim: Shim) -> None:
    if shim.sanitized:
        pytest.skip("the same words again")
    findings = {
        path: [one for one in json.loads(path.read_text())["findings"] if one["kind"] == "stale-nodelist"]
        for path in CORPUS.glob("*.sbatch.expected.json")
    }
    stale = [path for path, found in findings.items() if any(one["severity"] != "info" for one in found)]
    assert len(stale) > 50
    for path in stale:
        assert asks(str(path).removesuffix(".expected.json")), path


def test_mentions_on_the_borders_of_what_is_read(asks: Callable[..., bool], tmp_path: Path) -> None:
    """Blocks of 256 bytes, chunks of 64 KiB."""
    for border in (256, 64 * 1024, 128 * 1024):
        for begin in range(border - 17, border + 2):
            for word in (b"auto-r", b"JOB_NUM_NODES"):
                other = b"--auto-resume" if word.isupper() else b"NODELIST"
                write(tmp_path / "job.sh", (other + b"\n").ljust(begin, b".") + word)
                assert asks("job.sh"), (border, begin, word)


@pytest.mark.parametrize("size_bytes", [4 << 20, (4 << 20) + 1, 64 << 20])
def test_script_of_any_size(asks: Callable[..., bool], tmp_path: Path, size_bytes: int) -> None:
    script = write(tmp_path / "job.sh", MISUSE)
    os.truncate(script, size_bytes - len(MISUSE))
    with script.open("ab") as file:
        file.write(MISUSE.encode())
    assert asks("job.sh") == (size_bytes <= 4 << 20)


# -- what harms nothing -----------------------------------------------------------------------------------------------


def test_script_that_cannot_be_read(asks: Callable[..., bool], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDWR)
    os.write(reader, MISUSE.encode())
    (tmp_path / "loop").symlink_to("loop")
    for script in ("pipe", "loop", "absent", "/dev/zero", "/dev/stdin", "/", ".", "", "x" * 5000, "/proc/1/mem"):
        assert not asks(script), script
    assert os.read(reader, 4096) == MISUSE.encode()
    os.close(reader)


def breaking(program: str) -> str:
    return f"import os, time\n\ndef told(path, *more):\n{textwrap.indent(program, '    ')}\n"


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (breaking("os.abort()"), "Python crashed"),
        (breaking("os._exit(0)"), "Python crashed"),
        (breaking("time.sleep(60)"), "Python took too long"),
        (breaking("raise ValueError('\\x1b[2J' + path)"), "ValueError: ?[2Jjob.sh"),
        (breaking("os.write(1, b'x'); os.write(2, b'x'); raise SystemExit(2)"), "SystemExit: 2"),
        ("def told(\n", "'(' was never closed"),
    ],
)
def test_broken_check_submits_all_the_same(moved: Shim, tmp_path: Path, module: str, reason: str) -> None:
    (moved.packages / "stepguard/scripts/submission.py").write_text(module)
    write(tmp_path / "job.sh", MISUSE)
    began = time.monotonic()
    outcome = moved.run(["sbatch", "job.sh"], context="allocator", cwd=tmp_path)
    assert outcome.stderr == ""
    assert outcome.plain["env"] == []
    assert time.monotonic() - began < 5
    outcome = moved.run(["sbatch", "job.sh"], context="allocator", cwd=tmp_path, plugstack=REJECT)
    assert outcome.plain["env"] == []
    assert len(outcome.lines) == 1
    assert outcome.lines[0].startswith(NOT_CHECKED)
    assert reason in outcome.lines[0]
    assert outcome.lines[0].endswith(f": see `{moved.prefix}/bin/stepguard doctor`")
