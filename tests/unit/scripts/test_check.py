# SPDX-License-Identifier: Apache-2.0
"""What a report says of a file, beyond the examples of tests/data/scripts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stepguard.scripts.check import Report, check
from stepguard.scripts.rules import by_id, rules
from stepguard.scripts.telling import explained

HEAD = b"#!/bin/bash\n#SBATCH --nodes=3 --exclusive\n"
STALE = b"srun --auto-resume=1 -w $SLURM_JOB_NODELIST x"


def kinds(report: Report) -> list[tuple[str, int]]:
    return [(finding.rule.kind, finding.line) for finding in report.findings]


@pytest.mark.parametrize(
    "comment",
    [b"# stepguard: ignore[SG201]", b"# stepguard: ignore[stale-nodelist]", b"#stepguard:ignore[sg101, SG201]",
     b"# stepguard: ignore"],
)  # fmt: skip
def test_ignored_line(comment: bytes) -> None:
    assert kinds(check("a.sh", HEAD + STALE + b"\n")) == [("stale-nodelist", 3)]
    assert kinds(check("a.sh", HEAD + STALE + b" " + comment + b"\n")) == []


def test_another_rule_is_not_ignored() -> None:
    assert kinds(check("a.sh", HEAD + STALE + b" # stepguard: ignore[SG101]\n")) == [("stale-nodelist", 3)]


@pytest.mark.parametrize("data", [b"", b"\n \n", b"\x7fELF\0\0\0", b"#!/bin/bash\nsrun x\n\0\n"])
def test_no_script(data: bytes) -> None:
    assert check("job.sbatch", data) == Report("job.sbatch", "not-a-script")


_PROSE = b"""The cluster hums at night,
SLURM_JOB_NODELIST glows in amber light;
we asked for srun --auto-resume=1 and slept,
and woke to find that the promise was kept.
"""


@pytest.mark.parametrize("name", ["notes", "notes.sh", "notes.sbatch", "notes.txt"])
def test_prose_is_no_script(name: str) -> None:
    assert check(name, _PROSE).parse == "not-a-script"


def test_a_library_with_long_comments_is_a_script() -> None:
    text = b"# this is what we use to find the head of the job, and it is not that hard\nhead() { hostname; }\nhead\n"
    assert check("lib.sh", text).parse == "ok"


def test_settings_are_no_script() -> None:
    assert check("settings", b"trainer:\n  srun: yes\nsrun:\n  args: --auto-resume=1\n").parse == "not-a-script"


def test_python_is_known_by_its_imports() -> None:
    report = check(
        "entry", b'import os\nprint(os.environ["SLURM_PROCID"])\nos.system("./a " + os.environ["SLURM_NODELIST"])\n'
    )
    assert (report.parse, kinds(report)) == ("ok", [("stale-nodelist", 3)])


@pytest.mark.parametrize("word", ["done", "fi", "}", "then", "esac"])
def test_a_word_that_ends_nothing_is_a_fault(word: str) -> None:
    report = check("a.sh", HEAD + STALE + b"\n" + word.encode() + b"\necho end\n")
    assert (report.parse, kinds(report), report.unread_line) == ("partial", [("stale-nodelist", 3)], 4)


def test_column_counts_characters() -> None:
    (finding,) = check("a.sh", HEAD + "echo é; ".encode() + STALE + b"\n").findings
    assert (finding.line, finding.column) == (3, 33)


def test_long_script_is_read_in_part() -> None:
    data = HEAD + STALE + b"\n" + b"echo something to fill the file\n" * 131072
    assert len(data) > 4 * 1024 * 1024 - 200_000
    report = check("a.sh", data)
    assert report.parse == "partial"
    assert kinds(report) == [("stale-nodelist", 3)]


@pytest.mark.parametrize("directives", [b"#SBATCH --comment=" + b"x" * 200_000 + b"\n", b"#SBATCH -N2\n" * 20_000])
def test_long_head_is_read_for_the_option(directives: bytes) -> None:
    report = check("a.sh", b"#!/bin/bash\n" + directives + b"#SBATCH --exclusive --auto-resume=1\nsrun x\n")
    assert report.parse == "partial"
    assert ("misplaced-auto-resume", directives.count(b"\n") + 2) in kinds(report)


@pytest.mark.parametrize("end", [b"  EOF", b"EOF ", b"E"])
def test_document_without_its_end_is_read_in_part(end: bytes) -> None:
    report = check("a.sh", HEAD + b"date\ncat <<EOF\nx\n" + end + b"\n" + STALE + b"\n")
    assert report.parse == "partial"
    assert report.unread_line == 4


def test_commands_within_commands_within_commands() -> None:
    command = STALE.decode()
    for _ in range(4):
        command = "bash -c '" + command.replace("'", "'\\''") + "'"
    assert kinds(check("a.sh", HEAD + command.encode() + b"\n")) == [("stale-nodelist", 3)]


@pytest.mark.parametrize(
    "data",
    [
        b"$(" * 20_000,
        b"((" * 20_000,
        b"{ " * 20_000,
        b'"$(' * 20_000,
        b"if a; then\n" * 5_000,
        b"cat <<A\n" * 5_000,
        b"f() { f; f; f; }\nf\n",
        b"a() { b; b; b; b; b; b; }; b() { c; c; c; c; c; c; }; c() { d; d; d; d; d; d; }; d() { e; e; e; e; e; e; }\n"
        b"e() { f; f; f; f; f; f; }; f() { g; g; g; g; g; g; }; g() { :; :; :; :; :; :; }\na\n",
        b"x=a\n" + b'x="$x$x"\n' * 64 + b"srun $x\n",
        b"if a; then x=1; else x=2; fi\n" * 200 + b"srun $x\n",
        b"".join(b"if a; then x%d=1; else x%d=2; fi; y=$x%d$y\n" % (i, i, i) for i in range(300)) + b"srun $y\n",
        b"eval " * 5_000 + b"x\n",
        b"bash -c 'bash -c \"bash -c x\"'\n" * 500,
        b"a|" * 20_000 + b"b\n",
        b"a && " * 20_000 + b"b\n",
    ],
    ids=range(15),
)
def test_hostile_script_ends(data: bytes) -> None:
    assert check("a.sh", b"#!/bin/bash\n" + data).parse in ("ok", "partial")


@pytest.mark.parametrize(
    "data",
    [
        b"A+=($SLURM_NODELIST)\n" * 5_000,
        b"".join(b"export N%d_ADDR=$SLURM_NODELIST\n" % i for i in range(2_500)) + b"srun ./x\n" * 1_500,
        b"x=$((x + SLURM_NNODES))\n" * 2_000,
        b"A=$SLURM_NODELIST\n" + b"A=$A$A:$A\n" * 6_000,
        b"srun -w " + b"$SLURM_JOB_NODELIST," * 6_300 + b" x\n",
        b"".join(b"if a; then A=$A$SLURM_NODELIST; else A=x$A; fi\n" for _ in range(2_000)) + b"srun -w $A x\n",
        b"".join(b"f%d() { f%d; f%d; }\n" % (i, i + 1, i + 1) for i in range(12)) + b"f12() { srun -w $1 x; }\nf0\n",
        b"x=" + b"${a%" * 30_000,
        b"a=(" * 40_000,
        b"a | " * 30_000,
    ],
    ids=range(10),
)
def test_hostile_script_ends_soon(data: bytes) -> None:
    began_s = time.process_time()
    assert check("a.sh", b"#!/bin/bash\n" + data + b"\n").parse == "partial"
    assert time.process_time() - began_s < 2


def test_rules_are_complete() -> None:
    assert len(rules()) == 8
    assert len({rule.id for rule in rules().values()}) == 8
    for rule in rules().values():
        assert rule.severity in ("error", "warning", "info")
        assert all((rule.title, rule.why, rule.instead, rule.source))
        assert by_id(rule.id) == by_id(rule.kind) == rule


def test_documents_tell_the_rules() -> None:
    docs = Path(__file__).parents[3] / "docs"
    guide = (docs / "user-guide.md").read_text(encoding="utf-8")
    page = "".join(
        "\n".join([f"\n## {rule.id} {rule.kind}\n\n```", *explained(rule), "```\n"]) for rule in rules().values()
    )
    assert (docs / "check-script.md").read_text(encoding="utf-8").partition("\n## ")[2] == page.removeprefix("\n## ")
    for rule in rules().values():
        assert f"| [{rule.id}](check-script.md#{rule.id.lower()}-{rule.kind}) {rule.kind} |" in guide


def test_a_document_without_the_tabs_of_its_lines() -> None:
    script = b"#!/bin/bash\nsbatch <<-EOF\n\t#!/bin/bash\n\t\t#SBATCH -J $1 --auto-resume=1\n\tsrun x\n\tEOF\n"
    assert kinds(check("a.sh", script)) == [("misplaced-auto-resume", 4), ("not-exclusive", 4)]


@pytest.mark.parametrize(
    "broken", [b'echo "a', b"x=$(date", b") x", b"case a in b) c ;; ) ) d", b"echo ${x", b"[[ a == ("]
)
def test_line_that_is_not_understood_is_named_and_left_out(broken: bytes) -> None:
    lines = b"f() {\n    date\n}\nif a; then\n    b\nfi\n"
    report = check("a.sh", HEAD + lines + broken + b"\n" + lines + STALE + b"\n" + lines)
    assert (report.parse, report.unread_line) == ("partial", 9)
    assert kinds(report) == [("stale-nodelist", 16)]


@pytest.mark.parametrize(
    "command", ["srun -N1 srun --auto-resume=1 x", "srun -N1 env A=1 /usr/bin/srun --auto-resume=1 x"]
)
def test_option_of_an_inner_srun_is_not_misplaced(command: str) -> None:
    report = check("a.sh", HEAD + command.encode() + b"\n")
    assert "misplaced-auto-resume" not in [kind for kind, _ in kinds(report)]
    assert [step.line for step in report.guarded_steps] == [3]


@pytest.mark.parametrize(
    "command", ['"$SRUN"', 'unset SRUN; "$SRUN"', '"$LAUNCH" -l', '"$SLURM_BIN/srun"', 'nice "$RUN"']
)
def test_command_that_is_not_known_is_srun_where_it_has_the_option(command: str) -> None:
    report = check("a.sh", HEAD + f"{command} --auto-resume=1 ./a\n".encode())
    assert (kinds(report), [step.line for step in report.guarded_steps]) == ([], [3])
