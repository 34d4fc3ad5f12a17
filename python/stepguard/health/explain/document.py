# SPDX-License-Identifier: Apache-2.0
"""The result of `stepguard health explain` as JSON."""

from __future__ import annotations

from collections.abc import Iterable

from stepguard.health.explain.explained import Explained

SCHEMA = 1


def document(explained: Iterable[tuple[str, Explained]], site: str = "") -> dict[str, object]:
    """One document of all files, by name. `site`: the file of the site's own catalogue, by which they were read."""
    return {"schema": SCHEMA, "catalogue": site, "files": [_file(name, one) for name, one in explained]}


def _file(name: str, one: Explained) -> dict[str, object]:
    return {
        "file": name,
        "kind": one.kind,
        "verdict": one.judgement.status,
        "events": [
            {
                "line": event.line,
                "source": event.source,
                "code": event.code,
                "device": event.device,
                "class": event.fault_class,
                "action": event.action,
                "count": event.count,
                "trusted": event.trusted,
            }
            for event in one.judgement.events
        ],
        "devices": [
            {"device": device.device, "verdict": device.status, "reason": device.reason}
            for device in one.judgement.devices
        ],
    }
