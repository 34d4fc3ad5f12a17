# SPDX-License-Identifier: Apache-2.0
"""What nodes tell is read by others: of an odd file it is said what is odd, and nothing else comes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepguard.records.node_state import (
    MAX_BYTES,
    NodeState,
    StateItem,
    StateOffender,
    from_json,
    to_record,
)
from stepguard.records.shape import MalformedRecord

STATE = NodeState(
    node="n1",
    status="fail",
    action="replace",
    items=(StateItem("xid", "79", "0000:0f:00", "fail", "replace", "fallen off the bus", 1_800_000_000.5),),
    left_out=0,
    offences=3,
    offenders=(StateOffender("0000:0f:00", ("7", "8", "9"), 3, 1_800_000_000.0),),
    boot_id="b",
    at_s=1_800_000_001.0,
    version="0.1",
)


def changed(**values: Any) -> bytes:
    return json.dumps({**to_record(STATE), **values}).encode()


def test_what_is_written_is_read() -> None:
    assert from_json(changed()) == STATE
    assert from_json(changed(more="of a later stepguard of this schema")) == STATE


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not JSON"),
        (b"\xff\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"schema": true}', "schema True, this stepguard knows up to 1"),
        (changed(schema=2), "schema 2, this stepguard knows up to 1"),
        (b" " * (MAX_BYTES + 1), f"larger than {MAX_BYTES} bytes"),
        (changed(status="bad"), "unknown status 'bad'"),
        (changed(status=None), "status: missing, or of another type"),
        (changed(at_s="now"), "at_s: missing, or of another type"),
        (changed(at_s=float("nan")), "at_s: missing, or of another type"),
        (changed(at_s=10**400), "at_s: missing, or of another type"),
        (changed(offences=True), "offences: missing, or of another type"),
        (changed(items={}), "items: missing, or of another type"),
        (changed(items=["xid"]), "items: not a JSON object"),
        (changed(items=[{"source": "xid"}]), "items.code: missing, or of another type"),
        (
            changed(offenders=[{"gpu": "x", "job_ids": [7], "job_count": 1, "last_s": 0}]),
            "offenders.job_ids: missing, or of another type",
        ),
    ],
)
def test_what_is_odd_is_named(content: bytes, why: str) -> None:
    with pytest.raises(MalformedRecord) as raised:
        from_json(content)
    assert why in str(raised.value)
