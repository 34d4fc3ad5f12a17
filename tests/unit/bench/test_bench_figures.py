# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of `make bench`: what its figures, budgets and tables say about given samples."""

from __future__ import annotations

import json

import pytest

from bench.budgets import Budget
from bench.figures import difference, figure, ratio
from bench.hooks import times
from bench.instructions import total
from bench.journals import by_attempt
from bench.phases import Bounds, phases, rows
from bench.start import import_ms
from bench.table import Row, shown, table
from lab import LabError


def test_a_figure_is_the_median_with_its_range() -> None:
    odd, even = figure([3, 1, 2]), figure([1, 2, 3, 10], scale=10)
    assert (odd.median, odd.low, odd.high) == (2, 1, 3)
    assert (even.median, even.low, even.high) == (25, 10, 100)
    with pytest.raises(ValueError, match="a sample"):
        figure([])


def test_comparisons_are_made_round_by_round() -> None:
    # The second round was slow for both: the medians alone would say 35 more and 2.75 times.
    base, variant = figure([10, 100, 20]), figure([20, 200, 30])
    assert difference(variant, base).samples == (10, 100, 10)
    assert ratio(variant, base).samples == (2, 2, 1.5)
    assert ratio(variant, base).median == 2
    with pytest.raises(ValueError):
        difference(variant, figure([1]))


@pytest.mark.parametrize(("limit", "met"), [(10, True), (9.9, False)])
def test_a_budget_bounds_the_median_of_what_is_over_the_base(limit: float, met: bool) -> None:
    budget = Budget(limit, over_base=True, source="here")
    row = Row("part", "what", "ms", figure([20, 200, 30]), figure([10, 100, 20]), budget)
    assert row.met is met
    assert row.as_record()["met"] is met
    assert row.as_record()["over_base"]["median"] == 10


def test_a_budget_of_the_value_needs_no_base() -> None:
    assert Row("part", "what", "s", figure([1, 5, 9]), budget=Budget(5, False, "here")).met is True
    assert Row("part", "what", "s", figure([1, 5, 9]), budget=Budget(4, False, "here")).met is False
    assert Row("part", "what", "s", figure([1])).met is None
    with pytest.raises(ValueError, match="base"):
        _ = Row("part", "what", "s", figure([1]), budget=Budget(4, True, "here")).met


def test_a_budget_may_bound_the_ratio_to_the_base() -> None:
    def met(samples: list[float]) -> bool | None:
        bound = Budget(1.05, False, "here", ratio=True)
        return Row("part", "what", "ms", figure(samples), figure([100, 200, 400]), bound).met

    assert met([105, 210, 500]) is True
    assert met([105, 212, 500]) is False


def test_a_record_is_json_and_keeps_all_samples() -> None:
    record = json.loads(json.dumps(Row("part", "what", "s", figure([1, 2]), budget=Budget(4, False, "b")).as_record()))
    assert record["value"] == {"median": 1.5, "min": 1, "max": 2, "samples": [1, 2]}
    assert "ratio" not in record
    assert record["budget"] == {"limit": 4, "over_base": False, "ratio": False, "source": "b"}


def test_the_table_names_each_part_once_and_says_what_was_missed() -> None:
    base = figure([36_000_000, 36_000_010])
    rows = [
        Row("clients", "empty", "Ir", base),
        Row("clients", "ours", "Ir", figure([36_070_000, 36_070_010]), base, Budget(60_000, True, "b")),
        Row("recovery", "all", "s", figure([2.5]), None, Budget(6, False, "b")),
    ]
    lines = table(rows).splitlines()
    assert [line for line in lines if line and not line.startswith(" ")] == ["clients", "recovery"]
    ours = next(line for line in lines if "ours" in line)
    assert ours.split()[-3:] == ["+60,000", "Ir", "MISSED"]
    assert "+70,000 [+70,000 +70,000]" in ours
    assert lines[-1].split() == ["all", "2.50", "s", "6.00", "s", "met"]


def test_one_sample_has_no_range() -> None:
    assert shown(figure([1234.5]), "Ir") == "1,234"
    assert shown(figure([1, 2, 4]), "ms", signed=True) == "+2.0 [+1.0 +4.0]"


def test_callgrind_profiles_are_summed_by_their_totals() -> None:
    assert total("events: Ir\nsummary: 7\nfn=(1)\n1 7\ntotals: 24972778\n") == 24_972_778
    with pytest.raises(LabError):
        total("events: Ir\n")


def test_a_module_of_others_is_charged_with_all_that_it_imports_and_one_of_ours_is_not() -> None:
    report = (
        "import time: self [us] | cumulative | imported package\n"
        "import time:        50 |         50 |   stat\n"
        "import time:       100 |        150 | site\n"
        "import time:         7 |          7 |       ast\n"
        "import time:        20 |         27 |     inspect\n"
        "import time:         3 |         30 |   dataclasses\n"
        "import time:       400 |        400 |   stepguard.errors\n"
        "srun: some other words\n"
        "import time:      1500 |       1930 | stepguard.config\n"
    )
    times = import_ms(report)
    assert times == {"site": 0.15, "dataclasses": 0.03, "stepguard.errors": 0.4, "stepguard.config": 1.5}


def test_the_phases_of_a_recovery_add_up_to_it() -> None:
    journal = by_attempt(
        [
            {"event": "start", "attempt": 0, "time": 90.0},
            {"event": "end", "attempt": 0, "time": 103.0, "decide_s": 0.25},
            {"event": "start", "attempt": 1, "time": 103.75},
        ]
    )
    found = phases(journal, fault_at=100.0, ranks=[{"time": 104.0}, {"time": 104.5}])
    assert (found.detect_s, found.decide_s, found.replace_s, found.relaunch_s) == (2.75, 0.25, 0.75, 0.75)
    assert found.total_s == 4.5
    assert found.after_detection_s == 1.75
    assert found.after_decision_s == 1.5
    judged = {row.what.strip(): row.met for row in rows("part", [found], Bounds(Budget(4, False, "here")))}
    assert [what for what, met in judged.items() if met is not None] == ["fault → all tasks running again"]
    assert judged["fault → all tasks running again"] is False
    assert list(judged)[-4:] == ["detect", "decide", "replace", "relaunch"]


def test_a_journal_without_a_resume_is_told_so() -> None:
    with pytest.raises(LabError, match="no event 'start' of attempt 1"):
        phases(by_attempt([{"event": "end", "attempt": 0, "time": 1.0, "decide_s": 0.1}]), 0.0, [])


def test_the_times_of_a_job_are_those_of_the_daemons_logs() -> None:
    controller = """\
[2026-11-29T21:23:05.300] sched: Allocate JobId=12 NodeList=n1 #CPUs=8 Partition=main
[2026-11-29T21:23:05.375] sched: Allocate JobId=2 NodeList=n1 #CPUs=8 Partition=main
"""
    node = """\
[2026-11-29T21:23:05.392] Launching batch job 2 for UID 60101
[2026-11-29T21:23:05.393] debug:  Finished wait for job 2's prolog to complete
[2026-11-29T21:23:05.429] debug:  Finished wait for job 2's prolog to complete
[2026-11-29T21:23:05.443] debug:  completed epilog for jobid 2
[2026-11-29T21:23:06.443] debug:  completed epilog for jobid 21
"""
    taken = {what: round(seconds, 3) for what, seconds in times(controller, node, "2").items()}
    assert taken == {"whole job": 0.068, "until its script is started": 0.017, "epilog": 0.014}
    with pytest.raises(AssertionError, match="JobId=3 "):
        times(controller, node, "3")
