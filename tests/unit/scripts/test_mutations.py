# SPDX-License-Identifier: Apache-2.0
"""Damaged scripts get an answer: no crash, and no line that is not there."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stepguard.scripts.check import check
from stepguard.scripts.fixing import fixed
from unit.scripts.corpus import examples

SCRIPTS = [(example.path.name, example.path.read_bytes()[:3000]) for example in examples()]
# What opens or ends something, and what is rarely written.
FRAGMENTS = [
    b'"', b"'", b"`", b"$(", b"$((", b"${", b"}", b")", b"(", b"{", b"\\", b"\\\n", b"\n", b"<<EOF\n", b"<<'E'", b"<<<",
    b"|", b"&&", b";;", b"case x in", b"esac", b"if ", b"fi", b"do", b"done", b"#", b"\r\n", b"\t", b"\xff",
    b"$", b"=", b"[[", b"]]", b"function ", b"\0", b"srun ", b"--auto-resume=1 ", b"$SLURM_JOB_NODELIST", b"#SBATCH ",
    b"bash -c '", b"eval ", b"<(", b"&", b":", b"${!x}", b"$'", b"x=(", b"[1]=", b"import os\n", b"    ", b"@",
]  # fmt: skip
CHANGES = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(FRAGMENTS), st.booleans()), min_size=1, max_size=6
)


def mutated(data: bytes, changes: list[tuple[float, int, bytes, bool]]) -> bytes:
    """The script with pieces cut out, put in, or doubled."""
    for where, length, fragment, doubles in changes:
        at = int(where * len(data))
        data = data[:at] + (data[at : at + length] * 2 if doubles else fragment) + data[at + length :]
    return data


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(SCRIPTS), CHANGES)
def test_mutated_script_gets_an_answer(
    script: tuple[str, bytes], changes: list[tuple[float, int, bytes, bool]]
) -> None:
    name, data = script
    data = mutated(data, changes)
    report = check(name, data)
    assert report.parse in ("ok", "partial", "not-a-script")
    lines = data.count(b"\n") + 1
    assert all(1 <= finding.line <= lines and finding.column >= 1 for finding in report.findings)
    assert all(1 <= step.line <= lines for step in report.guarded_steps)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([script for script in SCRIPTS if check(*script).findings]), CHANGES)
def test_mutated_script_is_fixed_at_once_or_left(
    script: tuple[str, bytes], changes: list[tuple[float, int, bytes, bool]]
) -> None:
    name, data = script
    data = mutated(data, changes)
    after = fixed(name, data)
    assert fixed(name, after) == after
    assert after == data or len(check(name, after).findings) < len(check(name, data).findings)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["a.sh", "a.py", "a.csh", "a", "a.txt"]))
def test_any_bytes_get_an_answer(data: bytes, name: str) -> None:
    assert check(name, data).parse in ("ok", "partial", "not-a-script")
