# SPDX-License-Identifier: Apache-2.0
"""What auto-resume's journal says of sick nodes, in sentences."""

from __future__ import annotations

from typing import Any

import pytest

from stepguard.report.resumes import sentence

TOLD = {"event": "health", "node": "n2", "source": "agent", "text": "xid 79 on 0000:0f:00: GPU has fallen off the bus"}
END = {
    "event": "end",
    "attempt": 0,
    "status": 1,
    "ran_s": 7.5,
    "cause": "hardware",
    "why": "n2: xid 79",
    "nodes": ["n2"],
}
CHOICE = {"event": "choice", "strategy": "spare", "nodes": ["n1", "n3"]}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            {**TOLD, "class": "hardware-replace", "action": "replace"},
            "n2: xid 79 on 0000:0f:00: GPU has fallen off the bus (agent: hardware-replace, replace)",
        ),
        ({**TOLD, "class": "", "action": "check"}, f"n2: {TOLD['text']} (agent: check)"),
        ({"event": "health"}, "?:  (?: )"),
        (END, "attempt 0 ended with status 1 after 7.5 s: hardware: n2: xid 79 (nodes n2)"),
        (
            {**END, "detect_s": 0.614, "decide_s": 0.025},
            "attempt 0 ended with status 1 after 7.5 s: hardware: n2: xid 79 (nodes n2);"
            " noticed after 0.61 s, decided within 0.03 s",
        ),
        ({**CHOICE, "replace_s": 0.25}, "spare: goes on on n1,n3; replaced within 0.25 s"),
        ({**CHOICE, "replace_s": "soon"}, "spare: goes on on n1,n3"),
        ({**CHOICE, "replace_s": 1e300}, "spare: goes on on n1,n3"),
    ],
)
def test_sentences(event: dict[str, Any], expected: str) -> None:
    assert sentence(event) == expected
