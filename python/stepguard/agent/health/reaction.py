# SPDX-License-Identifier: Apache-2.0
"""What is done to the node in Slurm for its verdict, when it is time (`stepguard health react`)."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Mapping
from typing import Any

from stepguard.agent.health.asker import Asker
from stepguard.agent.log import Log
from stepguard.config import Config
from stepguard.health.marking import GATE_S, MARKED_S, REASONS, RETRY_S, remembered
from stepguard.health.model import Status
from stepguard.health.repetition import APART_S
from stepguard.health.verdict import Item, NodeVerdict

# Where slurmctld does not answer.
_AGAIN_S = 30.0
# It waits for other agents' claims, and for slurmctld up to [slurm] timeout_s with each question.
_LIMIT_S = 300.0


class Reaction:
    """`state` is what an earlier `state()` gave. What it remembers has changed after `look` has said so."""

    def __init__(self, config: Config, state: Mapping[str, Any], selector: selectors.BaseSelector, log: Log) -> None:
        self._config = config
        # A gate without a reaction needs the breaker's leave too.
        is_gate = config.agent.gate and config.health.reaction == "none"
        self._reaction = "gate" if is_gate else config.health.reaction
        self._log = log
        self._memory: dict[str, int] = {str(key): int(count) for key, count in state.get("memory", {}).items()}
        self._is_marked = bool(state.get("is_marked", False))
        # Mostly the host's name, until a hook has said Slurm's.
        self.node = str(state.get("node", "")) or socket.gethostname().partition(".")[0]
        self._asker = Asker(config, selector, _LIMIT_S, self._told)
        self._verdict: NodeVerdict | None = None
        self._since_s: float | None = None
        # An earlier agent may have died over it.
        self._is_unsure = True
        # For what it was asked last, and when it may be asked again for no more than that.
        self._asked_for: dict[str, int] = {}
        self._asked_s = 0.0
        self._not_before_s = 0.0
        self._is_held = False
        self._last: dict[str, Any] = {}
        self._last_s = float("-inf")
        self._has_changed = False

    def state(self) -> dict[str, Any]:
        return {"memory": self._memory, "is_marked": self._is_marked, "node": self.node}

    def document(self) -> dict[str, Any]:
        """What is told of it."""
        configured = self._config.health.reaction
        asking_s = round(time.monotonic() - self._asked_s, 1) if self._asker.is_asking else None
        return {
            "configured": configured,
            "node": self.node,
            "is_marked": self._is_marked,
            "asking_s": asking_s,
            "last": self._last,
        }

    def done_within(self, for_s: float) -> str:
        """What was done to the node within the last so many seconds, if anything."""
        is_done = self._last.get("done") in ("marked", "lifted", "refused")
        return str(self._last["text"]) if is_done and time.monotonic() - self._last_s <= for_s else ""

    def know_node(self, name: str) -> None:
        """Slurm's name of this node, which its daemons say."""
        if name and name != self.node:
            self.node, self._has_changed = name, True

    def obstacle(self, item: Item) -> str:
        """Why no job is refused for a thing that has failed; "" where the breaker has let this node refuse them, or be
        marked for it."""
        if item.key in self._memory and self._is_marked:
            return ""
        if item.count <= self._memory.get(item.key, 0):
            return "an administrator has put this node back into service since"
        return "the circuit breaker has not let this node refuse jobs, or not yet"

    def look(self, verdict: NodeVerdict) -> bool:
        """Reacts to the verdict of now, where it is time. Returns whether what it remembers has changed since."""
        now_s = time.monotonic()
        before = self._memory
        self._memory = remembered(before, verdict, is_marked=False)
        has_changed = self._has_changed or self._memory != before
        self._has_changed = False
        self._asker.look()
        if self._asker.is_asking or self._reaction == "none":
            return has_changed
        if not self._is_due(verdict):
            self._since_s = None
        elif self._since_s is None:
            self._since_s = now_s
        # Lines of one crash come one after another, and a later one may say more.
        elif now_s - self._since_s >= APART_S and (now_s >= self._not_before_s or self._has_news(verdict)):
            self._start(verdict)
        return has_changed

    def stop(self) -> None:
        """Ends what runs; the next agent takes it up."""
        self._asker.stop()

    def _is_due(self, verdict: NodeVerdict) -> bool:
        """Whether there is something to do, as far as is known here: slurmctld is not asked for nothing."""
        # The mark goes by what stands in Slurm, where an administrator may have taken it away.
        if self._is_unsure or self._is_marked:
            return True
        return verdict.action in REASONS and _is_more(_failed(verdict), self._memory)

    def _holds_gate(self) -> bool:
        """Whether jobs are refused here, until an administrator takes the mark away: they are asked for soon."""
        return self._is_marked and self._config.agent.gate

    def _has_news(self, verdict: NodeVerdict) -> bool:
        """Whether more has failed than when it was asked last, which a full breaker does not wait for."""
        return not self._is_held and _is_more(_failed(verdict), self._asked_for)

    def _start(self, verdict: NodeVerdict) -> None:
        asked = {
            "verdict": verdict.as_record(),
            "node": self.node,
            "reaction": self._reaction,
            "memory": self._memory,
        }
        self._verdict, self._asked_for, self._asked_s = verdict, _failed(verdict), time.monotonic()
        self._asker.ask(["react"], asked)

    def _told(self, said: Mapping[str, Any], why: str) -> None:
        try:
            self._took(str(said["done"]), str(said["text"]), is_marked=bool(said["is_marked"]))
        except KeyError:
            self._took("failed", why or "it does not tell", is_marked=self._is_marked)

    def _took(self, done: str, text: str, *, is_marked: bool) -> None:
        """What came of it."""
        now_s, is_news = time.monotonic(), text != self._last.get("text")
        self._last = {"done": done, "text": text, "at_s": time.time()}
        self._last_s = now_s
        self._since_s = None
        self._is_held = done in ("failed", "refused")
        if done == "failed":
            self._log.error(f"no reaction to this node's health, tried again in {_AGAIN_S:g} s: {text}")
            self._not_before_s = now_s + _AGAIN_S
            return
        self._is_unsure = False
        was_marked, self._is_marked = self._is_marked, is_marked
        if self._is_marked and self._verdict is not None:
            self._memory = remembered(self._memory, self._verdict, is_marked=True)
        self._has_changed = True
        # What stands in the way, of a mark or of lifting it, may have gone by then.
        self._not_before_s = now_s + (GATE_S if self._holds_gate() else MARKED_S if is_marked else RETRY_S)
        if done == "refused":
            self._log.error(f"the circuit breaker holds: {text}; asked again in {RETRY_S:g} s")
        elif done == "marked":
            self._log.error(text)
        elif done == "lifted":
            self._log.warning(text)
        elif was_marked != self._is_marked or (is_news and self._has_failed()):
            self._log.info(f"nothing is done to {self.node}: {text}")

    def _has_failed(self) -> bool:
        return self._verdict is None or self._verdict.status is Status.FAIL


def _failed(verdict: NodeVerdict) -> dict[str, int]:
    """What has failed, and how often."""
    return {item.key: item.count for item in verdict.items if item.status is Status.FAIL}


def _is_more(counts: Mapping[str, int], before: Mapping[str, int]) -> bool:
    return any(count > before.get(key, 0) for key, count in counts.items())
