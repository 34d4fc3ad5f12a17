# SPDX-License-Identifier: Apache-2.0
"""--fix makes what it changes right, and changes nothing else."""

from __future__ import annotations

import pytest

from stepguard.scripts.check import check
from stepguard.scripts.fixing import difference, fixed
from unit.scripts.corpus import Example, examples

EXAMPLES = examples()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("#SBATCH -N2 --auto-resume=1 --exclusive\n", "#SBATCH -N2 --exclusive\n"),
        ("#SBATCH --auto-resume=1\n#SBATCH -N2\n", "#SBATCH -N2\n"),
        ("#SBATCH --auto-resume 1 -N2 # heals itself\n", "#SBATCH -N2 # heals itself\n"),
        ("#SBATCH --exclusive\nsrun --auto-resume=yes x\n", "#SBATCH --exclusive\nsrun --auto-resume=1 x\n"),
        ("#SBATCH --exclusive\nsrun --auto-resume= x\n", "#SBATCH --exclusive\nsrun --auto-resume=1 x\n"),
        ("#SBATCH -N2\ncd x\n#SBATCH -t1\nsrun x\n", "#SBATCH -N2\n#SBATCH -t1\ncd x\nsrun x\n"),
        ("#SBATCH -N2\nsrun --auto-resume=1 x\n", "#SBATCH -N2\n#SBATCH --exclusive\nsrun --auto-resume=1 x\n"),
    ],
)
def test_fixed(before: str, after: str) -> None:
    shebang = "#!/bin/bash\n"
    data = fixed("a.sh", (shebang + before).encode())
    assert data.decode() == shebang + after
    assert fixed("a.sh", data) == data
    assert check("a.sh", data).findings == ()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.path.name)
def test_fix_never_adds_a_finding(example: Example) -> None:
    before = example.path.read_bytes()
    after = fixed(example.path.name, before)
    if not example.findings:
        assert after == before
    had = [finding.rule.kind for finding in check(example.path.name, before).findings]
    has = [finding.rule.kind for finding in check(example.path.name, after).findings]
    assert len(has) <= len(had)
    assert (difference("a", before, after) == "") == (after == before)
