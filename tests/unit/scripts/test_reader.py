# SPDX-License-Identifier: Apache-2.0
"""The reader takes words apart where a shell does, and knows where they stand."""

from __future__ import annotations

import pytest

from stepguard.scripts.shell.reader import read
from stepguard.scripts.shell.tree import Command, Word

# One word each. Among them those that tree-sitter-bash 0.25 alone takes for several.
WORDS = """$A/$B.c "$A"$B --a=$A,$B ${A}_$B $A-$B/$C ~/x/$A a{b,c} $((1+2)) 'q'$A"z" @$A $A%$B $A^x $? -w$A a#b
    *.py [a-z] a=b --x=$A/$B/$C $A$B$C "${A[@]}" ${A[0]}/x ${A%%.*} ${A##*/} ${A//x/y} $A:$B/$C n[1-3] `date` - -- a+b
    {} a/{}/b $A"_"$B ${A}/${B}/$C ./$A/$B http://$A:$B/x $A=$B -D$A=$B user@$A:$B $A/*.txt "$A"/* "$@" key=$A/$B
    a=$((B+1)) ${A:-$B/$C} ${#A} /x/$A/y/$B/z $A.$B.$C $A-$B-$C $A+$B+$C/x $A_$B/x --exclude=$A $A@$B a!b "$A"."$B"
    ++a.b=$A 1:2:3 $1/$2 $A,$B,$C ${x:$y:1} ${x:$((n-1)):1} ${x:1:$n}""".split()  # noqa: SIM905
STATEMENTS = [
    "case $x in a) b ;& *) c ;;& esac",
    '[ "$a" \\< "$b" ] && c',
    "while read -r a; do b; done < <(c) > d",
    "x=(\n# c\na b # d\n)",
    "declare -A m=([a b]=1 [c]=2)",
    "for ((i=0,j=1; i<n; i++, j+=2)); do a; done",
    "cat <<-E | b\n\tx $y\n\tE",
    "f() { a; } 2>&1",
    "a 2> >(b) &>> c",
    "a=${b%%[*} c=${d%]}",
    "a=(!(*.log) *.@(b|c)); rm !(x)",
    "exec {a}> b {c}>&-; exec 9<> d",
    "for i do a; done",
    '[ "$a" = ~ ]',
    "a=$((b + 1)) 2>/dev/null && c",
    "a <<A <<B\nx\nA\ny\nB",
    "rm $(ls | grep -v ^a$)",
    "a=$((10#$b))",
    "if ! a; then :; elif b; then c; else d; fi | tee e",
]


@pytest.mark.parametrize("word", WORDS)
def test_one_word(word: str) -> None:
    text = f"cmd {word} z\nX={word}\n"
    reading = read(text.encode())
    assert reading.whole
    first, second = reading.statements
    assert isinstance(first, Command)
    assert isinstance(second, Command)
    assert [start_of(one) for one in first.words] == [0, 4, 5 + len(word)]
    assert not second.words
    assert [assignment.name for assignment in second.assignments] == ["X"]


def start_of(word: Word) -> int:
    return word.at


@pytest.mark.parametrize("text", STATEMENTS)
def test_whole_statement(text: str) -> None:
    reading = read(f"{text}\nlast\n".encode())
    assert reading.whole
    last = reading.statements[-1]
    assert isinstance(last, Command)
    assert start_of(last.words[0]) == len(text) + 1


@pytest.mark.parametrize("text", ["a 'b", 'a "b', "if a; then b", "a $(b", "cat <<E\nx\n", "a ) b", "done"])
def test_what_follows_a_broken_line_is_read(text: str) -> None:
    reading = read(f"first\n{text}".encode())
    first = reading.statements[0]
    assert isinstance(first, Command)
    assert start_of(first.words[0]) == 0


def test_line_that_is_broken_is_left_out_alone() -> None:
    reading = read(b"one\ncase a in b) c ;; ) ) d\nsrun x\n")
    assert not reading.whole
    last = reading.statements[-1]
    assert isinstance(last, Command)
    assert start_of(last.words[0]) == 28
