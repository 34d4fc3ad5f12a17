# SPDX-License-Identifier: Apache-2.0
"""Host lists. What is expected here was printed by scontrol 22.05.8; the live contract test asks the cluster's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepguard.errors import StepguardError
from stepguard.slurm.hostlist import expand, fold


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("", ""),
        ("login", "login"),
        ("n[1-3]", "n1 n2 n3"),
        ("n[001-003,010]", "n001 n002 n003 n010"),
        ("n[09-11]", "n09 n10 n11"),
        ("n[8-010]", "n8 n9 n10"),
        ("n[2,1]", "n2 n1"),
        ("n[1-2,1]", "n1 n2 n1"),
        ("n1,n1", "n1 n1"),
        ("n1,,n2", "n1 n2"),
        ("n1 n2\tn3", "n1 n2 n3"),
        ("a-b-[1-2]", "a-b-1 a-b-2"),
        ("r[1-2]n[3,1]", "r1n3 r1n1 r2n3 r2n1"),
        ("n[1-2]3[4-5]", "n134 n135 n234 n235"),
        ("n[1-2]a[1-2]b[1-2]", "n1a1b1 n1a1b2 n2a1b1 n2a1b2 n1a2b1 n1a2b2 n2a2b1 n2a2b2"),
        ("[1-3]", "1 2 3"),
        ("N[1-2],n[1-2]", "N1 N2 n1 n2"),
    ],
)
def test_expand(expression: str, names: str) -> None:
    assert expand(expression) == names.split()


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("n[3-1]", "3-1"),
        ("n[]", "[]"),
        ("n[1", "[1"),
        ("n1]", "]"),
        ("n[a-b]", "a-b"),
        ("n[1-2-3]", "1-2-3"),
        ("n[1,]", "[1,]"),
        ("n[-1]", "-1"),
        ("n[1-]", "1-"),
        ("n[1-3/2]", "1-3/2"),
        ("r[1-2]n[1-3]x", "x"),
        ("n[[1]]", "[[1]]"),
        ("n[1-99999999999999999999]", "1-99999999999999999999"),
    ],
)
def test_malformed(expression: str, wrong: str) -> None:
    with pytest.raises(StepguardError) as caught:
        expand(f"ok,{expression}")
    assert wrong in str(caught.value)


@pytest.mark.parametrize(
    "expression", ["n[1-65537]", "n[1-100000000000000000]", "n[1-1000]x[1-1000]", "n[1-60000],m[1-60000]"]
)
def test_too_many(expression: str) -> None:
    with pytest.raises(StepguardError, match="more than 65536 names"):
        expand(expression)


def test_as_many_as_slurm_takes() -> None:
    assert len(expand("n[1-65536]")) == 65536


@pytest.mark.parametrize(
    ("names", "expression"),
    [
        ("", ""),
        ("login", "login"),
        ("n1", "n1"),
        ("n1 n2 n3", "n[1-3]"),
        ("n2 n1", "n[2,1]"),
        ("n1 n3 n2", "n[1,3,2]"),
        ("n1 n2 n1", "n[1-2,1]"),
        ("n01 n1 n02", "n[01,1,02]"),
        ("n09 n10 n11", "n[09-11]"),
        ("n9 n10", "n[9-10]"),
        ("n08 n09 n010", "n[08-09,010]"),
        ("n0 n00", "n[0,00]"),
        ("r1n1 r1n2 r2n1", "r1n[1-2],r2n1"),
        ("n1 login n2", "n1,login,n2"),
        ("n1-ib n2-ib", "n1-ib,n2-ib"),
        ("1 2 3", "[1-3]"),
    ],
)
def test_fold(names: str, expression: str) -> None:
    assert fold(names.split()) == expression


NAMES = st.from_regex(r"[a-z]{1,3}(-[a-z]|[0-9]{1,4}[a-z])?[0-9]{0,4}", fullmatch=True)


@given(st.lists(NAMES))
def test_fold_is_undone_by_expand(names: list[str]) -> None:
    assert expand(fold(names)) == names


@given(st.text(alphabet="n1-2,[] \n", max_size=12))
def test_expand_ends_in_names_or_an_error(expression: str) -> None:
    try:
        names = expand(expression)
    except StepguardError:
        return
    assert all(name and not set(name) & set("[], \n") for name in names)
