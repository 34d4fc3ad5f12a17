# SPDX-License-Identifier: Apache-2.0
"""The journal of auto-resume (stepguard.resume.journal) in sentences. Its owner may have written anything into it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepguard.report.times import duration

_LAST_TIME_S = 253_000_000_000  # in the year 9999


def time_of(event: Mapping[str, Any]) -> float | None:
    """When it was."""
    return _number(event.get("time"))


def sentence(event: Mapping[str, Any]) -> str:
    """What happened. Not made visible yet."""
    teller = _TELLERS.get(str(event.get("event")))
    return teller(event) if teller else f"{event.get('event')}"


def is_end_of(event: Mapping[str, Any], step_id: str, attempt: int | None, restart_count: int) -> bool:
    """Whether it tells why auto-resume ended an attempt of a guarded step, and on which nodes. `step_id` counts where
    the event has one, as Slurm writes it, 0 or 12.0."""
    its_step = str(event.get("step_id") or step_id).rpartition(".")[2]
    return (
        event.get("event") == "end"
        and bool(event.get("nodes"))
        and attempt is not None
        and (event.get("attempt"), event.get("restart_count"), its_step) == (attempt, restart_count, step_id)
    )


def _start(event: Mapping[str, Any]) -> str:
    return f"attempt {event.get('attempt', '?')} of the guarded step started: {_words(event.get('words'), ' ')}"


def _end(event: Mapping[str, Any]) -> str:
    ran_s = duration(_number(event.get("ran_s")))
    text = f"attempt {event.get('attempt', '?')} ended with status {event.get('status', '?')}"
    text += f" after {ran_s}" if ran_s else ""
    if cause := event.get("cause"):
        text += f": {cause}: {event.get('why', '')}"
    if nodes := _words(event.get("nodes"), ","):
        text += f" (nodes {nodes})"
    if seconds := _seconds(event, ("noticed after", "detect_s"), ("decided within", "decide_s")):
        text += f"; {seconds}"
    return text


def _health(event: Mapping[str, Any]) -> str:
    kind = ", ".join(str(event[key]) for key in ("class", "action") if event.get(key))
    return f"{event.get('node', '?')}: {event.get('text', '')} ({event.get('source', '?')}: {kind})"


def _choice(event: Mapping[str, Any]) -> str:
    strategy, nodes = event.get("strategy"), _words(event.get("nodes"), ",")
    text = f"{strategy}: goes on on {nodes}" if strategy and nodes else f"{strategy or 'no strategy is left'}"
    passed_over = event.get("passed_over")
    if isinstance(passed_over, dict) and passed_over:
        text += "; not possible: " + "; ".join(f"{name} ({why})" for name, why in passed_over.items())
    if seconds := _seconds(event, ("replaced within", "replace_s")):
        text += f"; {seconds}"
    return text


def _batch_host_lost(event: Mapping[str, Any]) -> str:
    return f"the batch host {event.get('node', '?')} was lost, seen by {event.get('seen_by', '?')}: requeue"


def _helper_ended(event: Mapping[str, Any]) -> str:
    return f"helper job {event.get('helper', '?')} was ended by {event.get('seen_by', '?')}"


_TELLERS = {
    "start": _start,
    "end": _end,
    "choice": _choice,
    "health": _health,
    "batch-host-lost": _batch_host_lost,
    "helper-ended": _helper_ended,
}


def _words(value: Any, between: str) -> str:
    return between.join(map(str, value)) if isinstance(value, list) else str(value or "")


def _seconds(event: Mapping[str, Any], *told: tuple[str, str]) -> str:
    """What took how long, as far as the event of an attempt that hardware ended says it."""
    known = [(what, _number(event.get(key))) for what, key in told]
    return ", ".join(f"{what} {seconds:.2f} s" for what, seconds in known if seconds)


def _number(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LAST_TIME_S
    return float(value) if known else None
