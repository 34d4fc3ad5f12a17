# SPDX-License-Identifier: Apache-2.0
"""What a finding says to write instead is not found again."""

from __future__ import annotations

import pytest

from stepguard.scripts.check import check

STEP = "srun --auto-resume=1 -N2 python train.py"
EXCLUSIVE = "#SBATCH --exclusive\n"


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("misplaced-auto-resume", f"{EXCLUSIVE}#SBATCH --auto-resume=1\nsrun python train.py", EXCLUSIVE + STEP),
        ("misplaced-auto-resume", f"{EXCLUSIVE}srun -N2 python train.py --auto-resume=1", EXCLUSIVE + STEP),
        ("bad-auto-resume-value", f"{EXCLUSIVE}srun --auto-resume=on x", f"{EXCLUSIVE}srun --auto-resume=1 x"),
        ("late-directive", f"{EXCLUSIVE}cd x\n#SBATCH -N3\n{STEP}", f"{EXCLUSIVE}#SBATCH -N3\ncd x\n{STEP}"),
        (
            "stale-nodelist",
            f"{EXCLUSIVE}export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)\n{STEP}",
            f"{EXCLUSIVE}srun --auto-resume=1 bash -c 'export MASTER_ADDR=$(stepguard nodes --first); exec python x'",
        ),
        (
            "stale-nodelist",
            f"{EXCLUSIVE}srun --auto-resume=1 bash -c 'torchrun --nnodes=$SLURM_NNODES x.py'",
            f"{EXCLUSIVE}srun --auto-resume=1 bash -c 'torchrun --nnodes=$SLURM_STEP_NUM_NODES x.py'",
        ),
        (
            "stale-nodelist",
            f"{EXCLUSIVE}{STEP}\nsrun --auto-resume=1 -N $SLURM_NNODES ./evaluate",
            f'{EXCLUSIVE}{STEP}\nsrun --auto-resume=1 -N "$(stepguard nodes --count)" ./evaluate',
        ),
        (
            "stale-nodelist",
            f"{EXCLUSIVE}{STEP}\nfor h in $(scontrol show hostnames); do ssh $h uptime; done",
            f"{EXCLUSIVE}{STEP}\nfor h in $(stepguard nodes); do ssh $h uptime; done",
        ),
        ("unguarded-step", f"{EXCLUSIVE}{STEP}\nsrun python train.py", f"{EXCLUSIVE}{STEP}\n{STEP}"),
        ("unguarded-step", f"{EXCLUSIVE}{STEP}\nsrun ./eval", f"{EXCLUSIVE}{STEP}\nsrun --auto-resume=0 ./eval"),
        (
            "setup-outside-step",
            f"{EXCLUSIVE}srun cp -r /data /tmp/data\n{STEP}",
            f"{EXCLUSIVE}srun --auto-resume=1 bash -c 'cp -r /data /tmp/data; exec python train.py'",
        ),
        ("incompatible-option", f"{EXCLUSIVE}srun --auto-resume=1 --async x", f"{EXCLUSIVE}srun --auto-resume=1 x &"),
        ("not-exclusive", f"#SBATCH -N3\n{STEP}", f"#SBATCH -N3\n{EXCLUSIVE}{STEP}"),
    ],
)
def test_advice_makes_the_script_pass(kind: str, before: str, after: str) -> None:
    first, second = (check("job.sbatch", f"#!/bin/bash\n{text}\n".encode()) for text in (before, after))
    assert kind in [finding.rule.kind for finding in first.findings]
    assert (second.parse, second.findings) == ("ok", ())
