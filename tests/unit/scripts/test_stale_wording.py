# SPDX-License-Identifier: Apache-2.0
"""What is said of a stale value: where it was read decides what is wrong with it, where it is used what to write."""

from __future__ import annotations

import pytest

from stepguard.scripts.check import check

HEAD = "#!/bin/bash\n#SBATCH -N 2 --exclusive\n"
LIST = "$(stepguard nodes --first), --list, or SLURM_STEP_NODELIST"
COUNT = "$(stepguard nodes --count), or SLURM_STEP_NUM_NODES"
INSIDE = "Ask where it is used, for a step inside of it: "


@pytest.mark.parametrize(
    ("body", "fix"),
    [
        ("srun --auto-resume=1 torchrun --master-addr $(scontrol show hostnames | head -1) a.py", INSIDE + LIST),
        ("srun --auto-resume=1 torchrun --nnodes $SLURM_NNODES a.py", INSIDE + COUNT),
        ('srun --auto-resume=1 bash -c "torchrun --nnodes $SLURM_NNODES a.py"', INSIDE + COUNT),
        ("srun --auto-resume=1 bash <<E\ntorchrun --nnodes $SLURM_NNODES a.py\nE", INSIDE + COUNT),
        (
            "srun --auto-resume=1 ./a\nsrun --auto-resume=0 -w $SLURM_NODELIST ./b",
            "Ask there: $(stepguard nodes --list)",
        ),
        ("srun --auto-resume=1 -N $SLURM_NNODES ./a", "Ask there: $(stepguard nodes --count)"),
        ("N=$SLURM_NNODES\nsrun --auto-resume=1 -N $N ./a", "Ask just before: $(stepguard nodes --count)"),
        (
            "for n in $(scontrol show hostnames); do srun --auto-resume=1 -w $n ./a; done",
            "Ask just before: $(stepguard nodes), or --first",
        ),
        ("srun --auto-resume=1 ./a\nsrun bash -c 'torchrun --nnodes $SLURM_NNODES b.py'", INSIDE + COUNT),
    ],
)
def test_read_in_the_script_it_is_stale(body: str, fix: str) -> None:
    (told, found) = _stale(body)
    assert told.endswith(": stale after a resume")
    assert found == fix


@pytest.mark.parametrize(
    ("command", "fix"),
    [
        ("torchrun --master-addr $(scontrol show hostnames $SLURM_JOB_NODELIST | head -1) a.py", LIST),
        ("torchrun --nnodes $SLURM_NNODES a.py", COUNT),
        ("torchrun --hosts $(env | grep SLURM_JOB_NODELIST) a.py", LIST),
        ('torchrun --hosts $(perl -e "print \\$ENV{SLURM_JOB_NODELIST}") a.py', LIST),
        ('torchrun --hosts $(python3 -c "import os; print(os.environ[\\"SLURM_NODELIST\\"])") a.py', LIST),
    ],
)
def test_read_in_a_guarded_step_it_is_of_the_whole_job(command: str, fix: str) -> None:
    (told, found) = _stale(f"srun --auto-resume=1 bash -c '{command}'")
    assert told.endswith(": may not be the step's own")
    assert found == fix


def _stale(body: str) -> tuple[str, str]:
    findings = check("job.sh", (HEAD + body + "\n").encode()).findings
    (finding,) = [finding for finding in findings if finding.rule.kind == "stale-nodelist"]
    return finding.message, finding.fix


def test_in_a_script_of_another_language_its_way_is_not_known() -> None:
    script = "#!/bin/csh\n#SBATCH --exclusive\nset h = $SLURM_JOB_NODELIST\nsrun --auto-resume=1 ./a $h\n"
    (finding,) = check("job.csh", script.encode()).findings
    assert (finding.line, finding.severity) == (3, "warning")
    assert finding.message == "SLURM_JOB_NODELIST → what is made of it on line 3: stale after a resume"
