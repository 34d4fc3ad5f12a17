# SPDX-License-Identifier: Apache-2.0
"""--fix makes what it changes right, and changes nothing else."""

from __future__ import annotations

from collections import Counter

import pytest

from stepguard.scripts.check import Report, check
from stepguard.scripts.fixing import difference, fixed
from unit.scripts.corpus import Example, examples

EXAMPLES = examples()
X = "#SBATCH --exclusive\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # Off an #SBATCH line, and on the job's sruns.
        ("#SBATCH -N2 --auto-resume=1 --exclusive\nsrun x\n", "#SBATCH -N2 --exclusive\nsrun --auto-resume=1 x\n"),
        (f"{X}#SBATCH --auto-resume\nexec srun -N2 x\n", f"{X}exec srun --auto-resume=1 -N2 x\n"),
        (f"{X}#SBATCH --auto-resume 1 -N2 # h\nsrun \\\n  x", f"{X}#SBATCH -N2 # h\nsrun --auto-resume=1 \\\n  x"),
        (f"{X}#SBATCH --auto-resume=yes\nA=1 /bin/srun x\n", f"{X}A=1 /bin/srun --auto-resume=1 x\n"),
        (f"{X}#SBATCH --auto-resume=1\nsrun a\nsrun b\n", f"{X}srun --auto-resume=1 a\nsrun --auto-resume=1 b\n"),
        (f"{X}#SBATCH --auto-resume=1\nsrun a --auto-resume=1\n", f"{X}srun --auto-resume=1 a\n"),
        (f"{X}#SBATCH --auto-resume=1\nsrun --auto-resume=1 a\n", f"{X}srun --auto-resume=1 a\n"),
        (f"{X}#SBATCH --auto-resume=0\nsrun a\n", f"{X}srun a\n"),
        (f"{X}#SBATCH --auto-resume=1", None),
        (f"{X}#SBATCH --auto-resume=1\nmpirun a\n", None),
        (f"{X}#SBATCH --auto-resume=1\n$(which srun) a\n", None),
        (f"{X}#SBATCH --auto-resume=1\nsrun cp /data /tmp\nsrun a\nsrun --async b\n", None),
        # Out of a program's arguments, and on its srun.
        (f"{X}srun a --auto-resume=1 --lr 3\n", f"{X}srun --auto-resume=1 a --lr 3\n"),
        (f"{X}srun \\\n  a \\\n  --auto-resume=1 \\\n  -b\n", f"{X}srun --auto-resume=1 \\\n  a \\\n  -b\n"),
        (f"{X}srun a \\\n  '--auto-resume=1'\ncd x\n", f"{X}srun --auto-resume=1 a\ncd x\n"),
        (f"{X}A=(\n  a\n  --auto-resume=1\n)\nsrun ${{A[@]}}\n", None),
        (f"{X}srun a --auto-resume=True\n", None),
        (f"{X}srun a --auto-resume=0\n", None),
        (f"{X}srun --auto-resume=1 a --auto-resume=1\n", None),
        (f"{X}mpirun --auto-resume=1 a\n", None),
        ("sbatch --auto-resume=1 job.sh\n", None),
        # Values.
        (f"{X}srun --auto-resume=yes x\n", f"{X}srun --auto-resume=1 x\n"),
        (f"{X}srun --auto-resume=off x\n", f"{X}srun --auto-resume=0 x\n"),
        (f"{X}srun --auto-resume= x\n", f"{X}srun --auto-resume=1 x\n"),
        (f"{X}srun '--auto-resume=True' x\n", f"{X}srun '--auto-resume=1' x\n"),
        (f"{X}A='--auto-resume=3'\nsrun $A x\n", f"{X}A='--auto-resume=1'\nsrun $A x\n"),
        (f"{X}srun --auto-resume -N2 x\n", f"{X}srun --auto-resume=1 -N2 x\n"),
        (f"{X}srun --auto-resume true x\n", f"{X}srun --auto-resume=1 x\n"),
        (f"{X}srun --auto-resume true\n", f"{X}srun --auto-resume=1 true\n"),
        (f"{X}srun --auto-resume=spare x\n", None),
        # The job.
        ("#SBATCH -N2\nsrun --auto-resume=1 x\n", f"#SBATCH -N2\n{X}srun --auto-resume=1 x\n"),
        ("#SBATCH -N2\nsrun x --auto-resume=1\n", f"#SBATCH -N2\n{X}srun --auto-resume=1 x\n"),
        (f"#SBATCH -N2\nsrun --auto-resume=1 x\n{X}", None),
        (f"{X}cd x\n#SBATCH -t1\nsrun x\n", None),
        (f"{X}srun --auto-resume=1 -w $SLURM_NODELIST x\n", None),
    ],
)  # fmt: skip
def test_fixed(before: str, after: str | None) -> None:
    shebang = "#!/bin/bash\n"
    data = fixed("a.sh", (shebang + before).encode())
    assert data.decode() == shebang + (before if after is None else after)
    assert fixed("a.sh", data) == data
    assert bool(check("a.sh", data).findings) == (after is None)


def test_all_other_bytes_stay() -> None:
    head, tail = b"\xef\xbb\xbf#!/bin/bash\r\n#SBATCH --exclusive\r\n", b"echo '\xe9\x0c\x80' \x0b\r\n"
    before = head + b"#SBATCH --auto-resume=1\r\n" + tail + b"srun x"
    after = head + tail + b"srun --auto-resume=1 x"
    assert fixed("a.sh", before) == after
    assert difference("a.sh", before, after).encode("utf-8", "surrogateescape") == (
        b"--- a/a.sh\n+++ b/a.sh\n@@ -1,5 +1,4 @@\n \xef\xbb\xbf#!/bin/bash\r\n #SBATCH --exclusive\r\n"
        b"-#SBATCH --auto-resume=1\r\n " + tail + b"-srun x\n\\ No newline at end of file\n"
        b"+srun --auto-resume=1 x\n\\ No newline at end of file\n"
    )


def test_a_job_within_a_script() -> None:
    before = "#!/bin/bash\nsbatch <<-EOF\n\t#!/bin/bash\n\t#SBATCH -J é$1 --auto-resume=1\n\tsrun x $1\nEOF\n"
    after = before.replace(" --auto-resume=1\n", "\n\t#SBATCH --exclusive\n").replace("srun", "srun --auto-resume=1")
    assert fixed("a.sh", before.encode()).decode() == after


def _kinds(report: Report) -> Counter[tuple[str, str]]:
    return Counter((finding.rule.kind, finding.severity) for finding in report.findings)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.path.name)
def test_fix_never_adds_a_finding(example: Example) -> None:
    name, before = example.path.name, example.path.read_bytes()
    after = fixed(name, before)
    had, has = check(name, before), check(name, after)
    assert has.parse == had.parse
    assert _kinds(has) < _kinds(had) if after != before else _kinds(has) == _kinds(had)
    assert len(has.guarded_steps) >= len(had.guarded_steps)
    assert fixed(name, after) == after
    assert (difference("a", before, after) == "") == (after == before)


def test_most_misplaced_options_are_fixed() -> None:
    """The rest takes a person: what comes through variables, is for sbatch or another program, or is read in part."""
    mended = 0
    for example in EXAMPLES:
        if any(kind == "misplaced-auto-resume" for kind, _, _ in example.findings):
            after = check(example.path.name, fixed(example.path.name, example.path.read_bytes()))
            mended += not any(finding.rule.kind == "misplaced-auto-resume" for finding in after.findings)
    assert mended >= 11
