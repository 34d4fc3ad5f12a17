# SPDX-License-Identifier: Apache-2.0
"""One row of the catalogue."""

from __future__ import annotations

from dataclasses import dataclass

from stepguard.health.model import Action, FaultClass

# Of `overridden_by`: what an XID 154 of the same GPU asks for.
XID_154 = "xid-154"


@dataclass(frozen=True)
class Repeats:
    """`count` times on one device within `within_s`, and it is this class and action instead."""

    count: int
    within_s: float
    fault_class: FaultClass
    action: Action


@dataclass(frozen=True)
class Entry:
    """What a code means and asks for.

    `source`        xid, sxid, dcgm, or a source of the kernel's other messages (aer, mce, …)
    `code`          the source's own number or name for it
    `vendor`        what the vendor calls the action, the severity or the section
    `overridden_by` what counts for more than the row: xid-154, sub-code, severity, recovery
    `origin`        where the row is from, a URL; "the site's configuration" for a row of the site's;
                    "" for a code that is in no catalogue
    `disagreements` what other sources say of it
    `same_as`       the code that tells of the same event in other words: a site's row for that one is this one's too
    """

    source: str
    code: int | str
    name: str
    meaning: str
    fault_class: FaultClass
    action: Action
    vendor: str = ""
    repeats: Repeats | None = None
    overridden_by: tuple[str, ...] = ()
    origin: str = ""
    disagreements: tuple[str, ...] = ()
    same_as: int | str | None = None

    @property
    def is_known(self) -> bool:
        """Whether it is in the catalogue."""
        return bool(self.origin)


def unknown(source: str, code: int | str) -> Entry:
    """The entry of a code that is in no catalogue: nothing is done for it, and somebody should look."""
    return Entry(source, code, "unknown", "Not in the catalogue.", FaultClass.IGNORE, Action.CHECK)
