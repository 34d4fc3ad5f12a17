# SPDX-License-Identifier: Apache-2.0
"""The corpus: every secret goes, every look-alike stays, and nothing else of the text changes."""

from __future__ import annotations

import random
import re

import pytest

from stepguard.archive.redaction import Redactor, load_rules
from unit.archive.redaction.corpus import DATA, Case, lookalikes, secrets

REDACTOR = Redactor(b"k" * 32, load_rules(None, ()))
SECRETS, LOOKALIKES = secrets(), lookalikes()
AROUND = [
    "iteration 100/ 1000 | tokens per second: 123456.7 | lm loss: 2.345678E+00",
    "node001:12345:12399 [3] NCCL INFO Channel 05/0 : 3[3] -> 4[4] via P2P/IPC",
    " 12%|███       | 123/1000 [00:12<01:23, 10.50it/s]",
    "",
    "\x1b[32mINFO\x1b[0m saved /scratch/u/ckpt/step_100/model-00001-of-00032.safetensors",
    "Traceback (most recent call last):",
    '  File "/home/u/train.py", line 12, in <module>',
]


def redact(case: Case) -> tuple[str, int]:
    if case.kind == "environment":
        name, value = case.variable
        environment, count = REDACTOR.environment({name: value})
        return f"{name}={environment[name]}", count
    redacted, count = REDACTOR.text(case.text.encode(), commands=case.kind == "shell")
    return redacted.decode(), count


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(SECRETS) >= 120
    assert len(LOOKALIKES) >= 120
    assert len({case.text for case in SECRETS}) == len(SECRETS)
    assert len({case.text for case in LOOKALIKES}) == len(LOOKALIKES)
    assert all(case.secrets for case in SECRETS)
    assert not any(case.secrets for case in LOOKALIKES)


@pytest.mark.parametrize("case", SECRETS, ids=lambda case: case.text[:40])
def test_a_secret_goes_and_what_is_around_it_stays(case: Case) -> None:
    redacted, count = redact(case)
    assert case.redacted.fullmatch(redacted), redacted
    assert count == len(case.secrets)
    for secret in case.secrets:
        pieces = (secret[at : at + 8] for at in range(max(1, len(secret) - 7)))
        assert not any(piece in redacted for piece in pieces if not any(piece in around for around in case.pieces))


@pytest.mark.parametrize("case", LOOKALIKES, ids=lambda case: case.text[:40])
def test_a_lookalike_stays(case: Case) -> None:
    assert redact(case) == (case.text, 0)


@pytest.mark.parametrize("case", [case for case in [*SECRETS, *LOOKALIKES] if case.kind == "script"], ids=str)
def test_in_a_script_it_is_the_same_as_in_an_output(case: Case) -> None:
    redacted, count = REDACTOR.text(case.text.encode(), commands=True)
    assert case.redacted.fullmatch(redacted.decode()), redacted
    assert count == len(case.secrets)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("commands", [False, True], ids=["output", "script"])
def test_all_of_them_in_one_text(commands: bool, seed: int) -> None:
    dice = random.Random(seed)
    # A key without its end would take the lines after it; those are tested alone.
    kinds = ("script", "shell") if commands else ("script", "output", "structured")
    whole = [case for case in [*SECRETS, *LOOKALIKES] if case.kind in kinds]
    dice.shuffle(whole)
    lines, expected = [], []
    for case in whole:
        around = dice.choices(AROUND, k=dice.randrange(3))
        lines += [case.text, *around]
        expected += [case.redacted.pattern, *map(re.escape, around)]
    redacted, count = REDACTOR.text("\n".join(lines).encode(), commands=commands)
    assert re.fullmatch("\n".join(expected), redacted.decode())
    assert count == sum(len(case.secrets) for case in whole)
    assert REDACTOR.text(redacted, commands=commands) == (redacted, 0)


def test_all_of_them_in_one_environment() -> None:
    cases = [case for case in [*SECRETS, *LOOKALIKES] if case.kind == "environment"]
    pairs = {f"{case.variable[0]}": case.variable[1] for case in cases}
    redacted, count = REDACTOR.environment(pairs)
    assert redacted.keys() == pairs.keys()
    assert count >= len(pairs) - len(LOOKALIKES)
    assert REDACTOR.environment(redacted) == (redacted, 0)


@pytest.mark.parametrize("case", SECRETS, ids=lambda case: case.text[:40])
def test_redacting_twice_is_redacting_once(case: Case) -> None:
    commands = case.kind == "shell"
    redacted, _ = REDACTOR.text(case.text.encode(), commands=commands)
    assert REDACTOR.text(redacted, commands=commands) == (redacted, 0)


def test_the_repository_holds_nothing_that_looks_like_a_secret() -> None:
    """Scanners of hosting sites would take it for one."""
    rules = load_rules(None, ())
    by_shape = Redactor(b"k", type(rules)(token=rules.token, context=rules.context[:2]))
    for path in [*DATA.iterdir(), *DATA.parents[1].glob("unit/archive/redaction/*.py")]:
        content = path.read_bytes()
        assert by_shape.text(content) == (content, 0), path
