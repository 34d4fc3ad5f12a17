# SPDX-License-Identifier: Apache-2.0
"""Each sample is known for what it is, and says what is expected; a part of it never says more than the whole."""

from __future__ import annotations

import random

import pytest

from stepguard.health.model import DeviceJudgement, Status
from stepguard.health.tools.kinds import KINDS
from unit.health.tools.samples import FILES, SAMPLES, Sample, judgement

BY_NAME = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)


def test_every_sample_has_its_expectation() -> None:
    assert sorted(sample.name for sample in SAMPLES) == FILES


@BY_NAME
def test_verdict_and_devices(sample: Sample) -> None:
    said = judgement(sample.name)
    assert said.status is sample.status, said.reason
    assert {one.device: one.status for one in said.devices if one.status is not Status.OK} == sample.not_ok
    assert len(said.devices) == sample.devices
    assert said.reason
    assert all(one.reason for one in said.devices)


@BY_NAME
def test_one_kind_claims_it(sample: Sample) -> None:
    assert [kind.name for kind in KINDS if kind.recognizes(sample.text)] == [sample.kind.name]


@BY_NAME
def test_what_a_ticket_puts_around_it_changes_nothing(sample: Sample) -> None:
    text = "```\n[ops@gn041 ~]$ the-command\n" + sample.text.replace("\r\n", "\n") + "[ops@gn041 ~]$ \n```\n"
    text = text.replace("\n", "\r\n")
    assert sample.kind.recognizes(text)
    assert sample.kind.read(text, 0).status is sample.status


@pytest.mark.parametrize(
    "sample", [sample for sample in SAMPLES if sample.status is Status.OK], ids=lambda sample: sample.name
)
def test_a_cut_healthy_text_is_never_a_finding(sample: Sample) -> None:
    text = sample.text
    for end in range(0, len(text), max(1, len(text) // 200)):
        said = sample.kind.read(text[:end], 0)
        assert said.status in (Status.OK, Status.UNKNOWN), (text[:end][-60:], said)


def tells_its_length(sample: Sample) -> bool:
    """Whether the text itself says how far it goes; that of a loop, or of one display, may end earlier."""
    if sample.name.endswith(("loop.xml", "rows-only.txt")):
        return False
    return sample.name.endswith((".json", ".xml")) or sample.name.startswith("nvidia-smi-query/")


@pytest.mark.parametrize("sample", [one for one in SAMPLES if tells_its_length(one)], ids=lambda sample: sample.name)
def test_what_tells_its_length_is_not_ok_when_cut(sample: Sample) -> None:
    text = sample.text.rstrip()
    end = text.rfind("    Processes")
    for cut in range(0, end if end > 0 else len(text) - 20, max(1, len(text) // 60)):
        assert sample.kind.read(text[:cut], 0).status is not Status.OK, text[:cut][-60:]


@BY_NAME
def test_a_failed_command_is_never_ok(sample: Sample) -> None:
    for exit_status in (1, 2, 124, 137, 255):
        said = sample.kind.read(sample.text, exit_status)
        assert said.status is not Status.OK
        if sample.status in (Status.FAIL, Status.WARN):
            assert said.status in (sample.status, Status.FAIL)


@BY_NAME
def test_an_unknown_exit_status_is_as_none(sample: Sample) -> None:
    assert sample.kind.read(sample.text, None) == sample.kind.read(sample.text, 0)


def test_damaged_texts_get_an_answer() -> None:
    pieces = [
        "\0",
        "\udcff",
        "\n",
        "|",
        "ERR!",
        "[N/A]",
        ": ",
        "{",
        "}",
        "]",
        '"',
        "null",
        "-1",
        "1e999",
        "9" * 5000,
        "&a;",
        "<",
    ]
    dice = random.Random(20260521)
    for _ in range(1500):
        sample = dice.choice(SAMPLES)
        text = list(sample.text)
        for _ in range(dice.randrange(1, 8)):
            at = dice.randrange(len(text) + 1)
            text[at : at + dice.choice([0, 0, 1, 100])] = [dice.choice(pieces)]
        for kind in (sample.kind, dice.choice(KINDS)):
            kind.recognizes("".join(text))
            said = kind.read("".join(text), dice.choice([None, 0, 1]))
            assert all(isinstance(one, DeviceJudgement) for one in said.devices)
            assert said.reason.isprintable()
            assert all((one.device + one.reason).isprintable() for one in said.devices)
