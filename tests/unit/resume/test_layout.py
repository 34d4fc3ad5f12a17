# SPDX-License-Identifier: Apache-2.0
"""Which ranks are on which node, learnt from what nodes say, and who has them next."""

from __future__ import annotations

import pytest

from stepguard.resume.layout import Layout, Slot, learnt
from stepguard.resume.places import entry, fits, ranks_text

BLOCK = Layout((Slot("n1", (0, 1)), Slot("n2", (2, 3)), Slot("n3", (4,))))


@pytest.mark.parametrize(
    ("num_tasks", "told", "ranks"),
    [
        pytest.param(3, {"n1": [0], "n2": [1], "n3": [2]}, [(0,), (1,), (2,)], id="all told"),
        pytest.param(6, {"n1": [0, 3], "n2": [1, 4], "n3": [2, 5]}, [(0, 3), (1, 4), (2, 5)], id="cyclic"),
        pytest.param(5, {"n1": [0, 1], "n2": [2, 3]}, [(0, 1), (2, 3), (4,)], id="one died before it told"),
        pytest.param(6, {"n1": [0, 3]}, [(0, 3), (1, 2), (4, 5)], id="two died: an equal share of what is left"),
        pytest.param(6, {}, [(0, 1), (2, 3), (4, 5)], id="nobody told"),
        pytest.param(3, {"n1": [0], "n2": [1], "n3": [2], "n9": [7]}, [(0,), (1,), (2,)], id="a stranger told"),
    ],
)
def test_a_layout_is_learnt(num_tasks: int, told: dict[str, list[int]], ranks: list[tuple[int, ...]]) -> None:
    layout = learnt(("n1", "n2", "n3"), num_tasks, told)
    assert layout is not None
    assert [slot.ranks for slot in layout.slots] == ranks
    assert layout.nodes == ("n1", "n2", "n3")
    assert layout.num_tasks == num_tasks


@pytest.mark.parametrize(
    ("num_tasks", "told"),
    [
        pytest.param(5, {}, id="nobody told, and no equal share"),
        pytest.param(3, {"n1": [0], "n2": [0], "n3": [2]}, id="two claim one rank"),
        pytest.param(3, {"n1": [0, 0], "n2": [1], "n3": [2]}, id="a rank twice on one node"),
        pytest.param(3, {"n1": [0], "n2": [1], "n3": [3]}, id="a rank that is not there"),
        pytest.param(4, {"n1": [0], "n2": [1], "n3": [2]}, id="a rank that nobody has"),
        pytest.param(2, {"n1": [0], "n2": [1]}, id="a node without any"),
        pytest.param(0, {}, id="no tasks"),
    ],
)
def test_what_does_not_add_up_is_no_layout(num_tasks: int, told: dict[str, list[int]]) -> None:
    assert learnt(("n1", "n2", "n3"), num_tasks, told) is None


def test_survivors_keep_their_slots_wherever_they_stand_in_the_new_list() -> None:
    moved = BLOCK.moved_to(("n9", "n3", "n1"))
    assert moved == Layout((Slot("n1", (0, 1)), Slot("n9", (2, 3)), Slot("n3", (4,))))
    assert moved.tasks_per_node == "2(x2),1"
    assert moved.moved_to(("n3", "n7", "n8")).nodes == ("n7", "n8", "n3")


def test_hosts_stand_in_the_order_of_ranks() -> None:
    cyclic = Layout((Slot("n1", (0, 3)), Slot("n2", (1, 4)), Slot("n3", (2, 5))))
    assert cyclic.by_rank(("n1", "n2", "n3")) == ["n1", "n2", "n3"] * 2
    assert cyclic.by_rank(("n3", "n1")) == ["n1", "n3", "n1", "n3"]


def test_an_entry_holds_constants_and_the_rows_of_its_nodes() -> None:
    text = entry({"SLURM_NTASKS": "5", "SLURM_JOB_ID": "71"}, [(0, BLOCK.slots[0]), (2, BLOCK.slots[2])])
    assert text == "1;SLURM_NTASKS=5;SLURM_JOB_ID=71;@n1=0:0-1;@n3=2:4"


@pytest.mark.parametrize("value", ["a;b", "line\nbreak", "Größe", "\x1b[0m", "\udc80"])
def test_a_constant_that_an_entry_cannot_hold_is_left_out(value: str) -> None:
    assert entry({"SLURM_GPUS": value, "SLURM_NTASKS": "1"}, []) == "1;SLURM_NTASKS=1"


@pytest.mark.parametrize(
    ("ranks", "text"),
    [((0,), "0"), ((0, 1, 2, 8), "0-2,8"), ((0, 3, 6), "0,3,6"), ((5, 4, 6), "5,4,6"), (tuple(range(9)), "0-8")],
)
def test_ranks_are_written_as_spans_in_their_order(ranks: tuple[int, ...], text: str) -> None:
    assert ranks_text(ranks) == text


def test_a_step_may_be_as_large_as_one_string_of_its_environment() -> None:
    def step(num_nodes: int, each: int) -> Layout:
        names = [f"gpu{number:05}" for number in range(num_nodes)]
        return Layout(tuple(Slot(name, tuple(range(n * each, n * each + each))) for n, name in enumerate(names)))

    assert fits(step(1000, 8))
    assert not fits(step(4000, 8))
