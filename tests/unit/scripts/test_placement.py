# SPDX-License-Identifier: Apache-2.0
"""--auto-resume where srun does not see it: meant for srun, or another program's own."""

from __future__ import annotations

import pytest

from stepguard.scripts.check import check

HEAD = "#!/bin/bash\n#SBATCH -N 2 --exclusive\n"
BESIDE = "srun ./before $SLURM_NODELIST\n"


def told(body: str, head: str = HEAD) -> dict[str, list[str]]:
    """The severities of what is found, by kind."""
    found: dict[str, list[str]] = {}
    for finding in check("job.sh", (head + body + "\n").encode()).findings:
        found.setdefault(finding.rule.kind, []).append(finding.severity)
    return found


@pytest.mark.parametrize(
    "command",
    [
        "srun ./a --auto-resume=1 -x",
        "srun python train.py --auto-resume 1 -x",
        "srun -N2 ./a --auto-r=1",
        "srun ./a '--auto-resume=1'",
        "A=--auto-resume=1; srun ./a $A",
        "if x; then V=1; else V=0; fi; srun ./a --auto-resume=$V",
        "srun bash -c 'python train.py --auto-resume=1'",
        "torchrun --standalone train.py --auto-resume=1",
        "sbatch job.sh --auto-resume=1",
    ],
)
def test_option_is_meant_for_srun(command: str) -> None:
    assert told(BESIDE + command) == {"misplaced-auto-resume": ["error"], "stale-nodelist": ["error"]}


@pytest.mark.parametrize(
    "command",
    [
        "srun python train.py --auto-resume",
        "srun python train.py --auto-resume --epochs 1",
        "srun ./solver --auto=1",
        "srun ./solver --au=1 --auto 1",
        "python train.py --auto-resume",
    ],
)
def test_switch_of_a_program_is_not_told(command: str) -> None:
    assert told(BESIDE + command) == {"stale-nodelist": ["info"]}


@pytest.mark.parametrize(
    "command",
    [
        "srun python train.py --auto-resume=True",
        "srun python train.py --auto-resume=/scratch/last.pt",
        "srun python train.py --auto-resume=$CHECKPOINT",
        "srun python train.py --auto-resume=0",
        "srun --auto-resume=0 python train.py --auto-resume=1",
        "srun bash -c 'python train.py --auto-resume=True'",
        "torchrun --standalone train.py --auto-resume=True",
        "sbatch job.sh --auto-resume=latest",
        "bash launch.sh --auto-resume=1",
        "./launch.sh --auto-resume 1",
    ],
)
def test_value_of_a_program_is_an_information(command: str) -> None:
    assert told(BESIDE + command) == {"misplaced-auto-resume": ["info"], "stale-nodelist": ["info"]}


@pytest.mark.parametrize(
    "command",
    [
        "python train.py --auto-resume=1",
        "python train.py --auto-resume 1",
        "python train.py --auto-resume=True",
        "bash -c 'python train.py --auto-resume=1'",
        "torchrun --standalone train.py --auto-resume=1",
    ],
)
def test_argument_within_a_guarded_step_is_the_programs_own(command: str) -> None:
    assert told(f"srun --auto-resume=1 {command}") == {"misplaced-auto-resume": ["info"]}


@pytest.mark.parametrize(
    ("argument", "severities"),
    [("--auto-resume=1", ["error"]), ("--auto-resume --lr 1", ["info"]), ("--auto-resume=on", ["info"])],
)
def test_argument_in_a_script_of_another_language(argument: str, severities: list[str]) -> None:
    found = told(f"srun ./train {argument}", "#!/bin/csh\n#SBATCH --exclusive\n")
    assert found == {"misplaced-auto-resume": severities}


def test_job_that_is_submitted_from_within_shares_no_nodes_of_this_one() -> None:
    assert told("sbatch --auto-resume=1 job.sh", "#!/bin/bash\n#SBATCH -N1\n") == {"misplaced-auto-resume": ["error"]}


def test_late_directive_with_the_option_is_not_to_be_moved_up() -> None:
    (finding,) = check("job.sh", (HEAD + "date\n#SBATCH -N2 --auto-resume=1\n").encode()).findings
    assert (finding.rule.kind, finding.line) == ("late-directive", 4)
    assert finding.fix == "Remove --auto-resume here and write it on srun: srun --auto-resume=1 … PROGRAM"


@pytest.mark.parametrize("command", ["stepguard supervise --", "exec /opt/stepguard/bin/stepguard supervise --"])
def test_step_is_guarded_without_the_plugin(command: str) -> None:
    report = check("job.sh", (HEAD + f"date\n{command} srun -N2 -w $SLURM_NODELIST ./a\n").encode())
    assert [(step.line, step.conditional) for step in report.guarded_steps] == [(4, False)]
    assert [(one.rule.kind, one.severity) for one in report.findings] == [("stale-nodelist", "error")]
    shared = check("job.sh", f"#!/bin/bash\n#SBATCH -N2\n{command} srun ./a\n".encode()).findings
    assert [(one.rule.kind, one.line) for one in shared] == [("not-exclusive", 3)]
