# SPDX-License-Identifier: Apache-2.0
"""Which attempt a message belongs to, and when an attempt is over."""

from __future__ import annotations

import pytest

from stepguard.agent.attempts import Attempts
from stepguard.agent.message import Message

BOOT = "b1"


class Node:
    """Attempts that are told messages, with a clock."""

    def __init__(self) -> None:
        self.attempts = Attempts()
        self.now_s = 0.0
        self.lives = True
        self.asked = 0

    def tell(self, kind: str, restarts: int | None = None, step_id: str = "", boot_id: str = BOOT) -> int:
        """Returns the attempt that it was added to."""
        self.now_s += 1
        return self.add(Message(kind, 7, step_id, 1000, 1000, restarts, "n1", boot_id, int(self.now_s * 1e9)))

    def again(self, kind: str, restarts: int) -> int:
        """The message of this second, once more."""
        return self.add(Message(kind, 7, "", 1000, 1000, restarts, "n1", BOOT, int(self.now_s * 1e9)))

    def add(self, message: Message) -> int:
        attempt = self.attempts.open(self.attempts.key_of(message))
        attempt.observe(message, self.now_s)
        return attempt.key.attempt

    def over(self, number: int = 0, after_s: float = 0.0) -> str | None:
        (attempt,) = [a for a in self.attempts if a.key.attempt == number]
        return attempt.over(self.now_s + after_s, BOOT, self.attempts.newest(7), self.has_slurmstepd)

    def has_slurmstepd(self, job_id: int) -> bool:
        assert job_id == 7
        self.asked += 1
        return self.lives

    def forget(self) -> None:
        for attempt in self.attempts:
            self.attempts.close(attempt)


@pytest.fixture
def node() -> Node:
    return Node()


def test_a_batch_job_is_over_with_its_epilog(node: Node) -> None:
    for kind, step_id in [("prolog", ""), ("batch", "batch"), ("step_start", "0"), ("step_end", "0")]:
        assert node.tell(kind, 0 if kind == "prolog" else None, step_id) == 0
    assert node.over(after_s=1e6) is None
    node.tell("epilog", 0)
    assert node.over() is None, "the end of the batch step may come a moment later"
    assert node.over(after_s=5) == ""
    node.tell("step_end", step_id="batch")
    assert node.over() == ""


def test_slurmds_count_is_better_than_that_of_an_inherited_environment(node: Node) -> None:
    node.tell("prolog", 0)
    assert node.tell("batch", 3) == 0
    assert node.tell("step_start", 3, "0") == 0


def test_without_a_prolog_the_jobs_own_count_counts(node: Node) -> None:
    assert node.tell("batch", 2) == 2
    assert node.tell("step_start", None, "0") == 2
    assert node.tell("epilog", 2) == 2


def test_a_second_script_belongs_to_the_attempt_that_it_names(node: Node) -> None:
    node.tell("prolog", 0)
    node.tell("batch", 0)
    assert node.tell("batch", 1) == 1


def test_requeued_attempts_are_kept_apart(node: Node) -> None:
    node.tell("prolog", 0)
    node.tell("epilog", 0)
    assert node.tell("prolog", 1) == 1
    assert node.tell("batch", 1) == 1
    assert node.tell("epilog", 0) == 0, "a late one of the first"
    assert node.over(1) is None
    assert node.tell("epilog", 1) == 1


def test_an_epilog_that_counts_the_requeue_already_ends_what_runs(node: Node) -> None:
    node.tell("prolog", 0)
    assert node.tell("epilog", 1) == 0


def test_an_epilog_that_comes_twice_ends_nothing_else(node: Node) -> None:
    """What the hook sent to an agent that was stopped, and the note that it left then."""
    node.tell("prolog", 0)
    assert (node.tell("epilog", 1), node.again("epilog", 1)) == (0, 0)
    node.forget()
    assert node.again("epilog", 1) == 0
    assert [attempt.key.attempt for attempt in node.attempts] == [0]


def test_the_epilog_that_a_reboot_brings_late_ends_no_attempt_that_has_not_begun(node: Node) -> None:
    node.tell("prolog", 0, boot_id="b0")
    assert node.over() == "reboot"
    node.tell("closed")
    node.forget()
    assert node.tell("epilog", 1) == 0
    node.forget()
    assert node.tell("epilog", 1) == 1, "that of an attempt which ran no step here"


def test_a_slurmd_that_has_just_booted_may_run_an_epilog_once_more(node: Node) -> None:
    node.tell("prolog", 0)
    node.tell("epilog", 1)
    node.forget()
    assert node.tell("epilog", 1, boot_id="b2") == 0


def test_epilogs_of_attempts_that_told_nothing_else_here(node: Node) -> None:
    """Of a requeue the first two, and the last of an attempt that ended by itself."""
    assert node.tell("epilog", 1) == 0
    assert node.over(0) == ""
    node.forget()
    assert node.tell("epilog", 2) == 1
    node.forget()
    assert node.tell("epilog", 2) == 2
    assert node.tell("epilog", None) == 2


def test_an_epilog_that_names_the_first_attempt_ends_that(node: Node) -> None:
    assert node.tell("epilog", 0) == 0
    assert node.over(0) == ""


def test_the_late_epilog_of_an_attempt_that_was_taken_to_be_over(node: Node) -> None:
    node.tell("prolog", 1)
    node.tell("closed")
    node.forget()
    assert node.tell("epilog", 1) == 1


def test_a_late_message_of_an_attempt_that_had_its_epilog_takes_no_other(node: Node) -> None:
    node.tell("prolog", 0)
    node.tell("epilog", 1)
    node.forget()
    assert node.tell("step_end", None, "0") == 0
    assert node.tell("epilog", 1) == 1


def test_late_messages_find_the_newest_attempt_and_do_not_stay(node: Node) -> None:
    node.tell("prolog", 2)
    node.tell("epilog", 2)
    node.forget()
    assert node.tell("step_end", None, "0") == 2
    assert node.over(2) is None
    assert node.over(2, after_s=5) == ""


def test_the_same_attempt_again_is_not_over(node: Node) -> None:
    node.tell("prolog", 0)
    node.tell("epilog", 0)
    assert node.tell("prolog", 0) == 0
    assert node.over(after_s=1e6) is None


def test_a_reboot_ends_what_it_interrupted(node: Node) -> None:
    node.tell("prolog", 0, boot_id="b0")
    node.tell("step_start", None, "0", boot_id="b0")
    assert node.over() == "reboot"
    node.tell("closed")
    assert node.over() == ""


def test_what_no_hook_ends(node: Node) -> None:
    node.tell("step_start", None, "0")
    assert node.over(after_s=1e6) is None
    node.tell("step_end", None, "0")
    assert (node.over(), node.over(after_s=60)) == (None, "")


@pytest.mark.parametrize(
    ("told", "is_asked"),
    [
        ([("step_start", "0")], True),  # no hooks, or a late note of an attempt that is in the archive
        ([("batch", "batch")], True),
        ([("prolog", ""), ("batch", "batch")], True),
        ([("batch", "batch"), ("step_end", "batch"), ("step_start", "0")], True),
        ([("prolog", ""), ("step_start", "0")], False),  # of salloc, or another node's: the job may go on without it
        ([("prolog", ""), ("batch", "batch"), ("epilog", "")], False),
    ],
)
def test_after_a_long_silence_a_slurmstepd_is_looked_for(
    node: Node, told: list[tuple[str, str]], is_asked: bool
) -> None:
    for kind, step_id in told:
        node.tell(kind, 0 if kind == "prolog" else None, step_id)
    assert node.over(after_s=599) in (None, "")
    (attempt,) = node.attempts
    assert (attempt.is_doubtful(node.now_s + 599), node.asked) == (False, 0)
    assert attempt.is_doubtful(node.now_s + 600) is is_asked
    if is_asked:
        assert node.over(after_s=600) is None
        node.lives = False
        assert (node.over(after_s=600), node.asked) == ("no-slurmstepd", 2)
        node.tell("closed")
        assert node.over() == ""
    else:
        node.lives = False
        assert (node.over(after_s=1e6), node.asked) == ("" if told[-1][0] == "epilog" else None, 0)


def test_a_lost_epilog(node: Node) -> None:
    node.tell("prolog", 0)
    node.tell("batch")
    node.tell("step_end", step_id="batch")
    assert (node.over(after_s=599), node.over(after_s=600)) == (None, "no-epilog")
    node.tell("prolog", 1)
    assert (node.over(0), node.over(0, after_s=60)) == (None, "superseded")


def test_memory_of_jobs_is_bounded() -> None:
    attempts = Attempts()
    for job_id in range(1, 20_001):
        key = attempts.key_of(Message("prolog", job_id, restarts=1))
        attempts.close(attempts.open(key))
    assert (attempts.newest(20_000), attempts.newest(1)) == (1, 0)
