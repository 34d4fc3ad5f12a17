# SPDX-License-Identifier: Apache-2.0
"""AMD's accelerators, through amdsmi where that can be imported (AMD SMI 7.0, Python library).

ECC counts and bad pages are told on bare metal only, not in a guest. Values that a GPU does not tell are None.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from stepguard.health.gpus import pci_address
from stepguard.health.model import Action, Finding, Report, Status
from stepguard.health.probes import pci
from stepguard.health.probes.files import Tree
from stepguard.health.probes.report import conclude, unreadable
from stepguard.health.probes.settings import Settings
from stepguard.health.tools.conclusion import printable

NAME = "amd"

Values = dict[str, Any]

# amdsmi_status_t: not supported, not yet implemented, no permission, no data.
_NOT_TOLD = frozenset({2, 3, 10, 40})
_UP, _DOWN = "U", "D"
# Violations that say that the GPU is hot, or its supply weak; that of its power limit is no finding.
_HELD_DOWN = {
    "active_prochot_thrm": "processor hot",
    "active_socket_thrm": "socket temperature",
    "active_vr_thrm": "voltage regulator temperature",
    "active_hbm_thrm": "memory temperature",
}
_XGMI_WELL = "NO_ERRORS"


class Rule(NamedTuple):
    """`evidence` gives the values that make it a finding, "" where they do not."""

    what: str
    status: Status
    action: Action
    evidence: Callable[[Values], str]
    source: str


def run(settings: Settings) -> Report:
    """Judges the GPUs. `values`: `devices` by PCI address."""
    tree = Tree(settings.root)
    on_bus = pci.amd_gpus(tree)
    if not on_bus:
        return conclude(NAME, unreadable(tree), "no AMD GPU here", {"devices": {}})
    try:
        import amdsmi  # type: ignore[import-not-found,unused-ignore]
    except (ImportError, OSError, KeyError) as error:
        # Without its library the module fails with KeyError.
        evidence = (
            f"{len(on_bus)} AMD GPUs on the PCI bus, and amdsmi cannot be imported: {type(error).__name__}: {error}"
        )
        return conclude(NAME, [Finding(Status.UNKNOWN, "", "driver", Action.CHECK, printable(evidence, 300))], "")
    print("amdsmi_init was called", file=sys.stderr, flush=True)
    try:
        amdsmi.amdsmi_init()
        handles = amdsmi.amdsmi_get_processor_handles()
    except amdsmi.AmdSmiException as error:
        evidence = f"{len(on_bus)} AMD GPUs on the PCI bus, and amdsmi does not start: {_said(error)}"
        return conclude(NAME, [Finding(Status.UNKNOWN, "", "driver", Action.CHECK, evidence)], "")
    devices = dict(_read(amdsmi, handle, place) for place, handle in enumerate(handles))
    findings = [finding for name, values in devices.items() for finding in _judge(name, values)]
    if len(devices) < len(on_bus):
        evidence = f"amdsmi finds {len(devices)}, {len(on_bus)} are on the PCI bus"
        findings.append(Finding(Status.FAIL, "", "gpu-count", Action.REBOOT, evidence))
    return conclude(NAME, findings, f"{len(devices)} GPUs, no finding", {"devices": devices})


def _read(smi: Any, handle: Any, place: int) -> tuple[str, Values]:
    errors: dict[str, str] = {}

    def ask(call: str) -> Any:
        print(f"{call} was called of GPU {place}", file=sys.stderr, flush=True)
        function = getattr(smi, call, None)
        if function is None:
            return None
        try:
            return function(handle)
        except smi.AmdSmiException as error:
            if getattr(error, "err_code", None) not in _NOT_TOLD:
                errors[call] = _said(error)
            return None

    address = pci_address(str(ask("amdsmi_get_gpu_device_bdf") or f"GPU {place}"))
    ecc = ask("amdsmi_get_gpu_total_ecc_count") or {}
    pages = ask("amdsmi_get_gpu_bad_page_info")
    violations = ask("amdsmi_get_violation_status") or {}
    xgmi = ask("amdsmi_get_gpu_xgmi_link_status") or {}
    return address, {
        "uuid": ask("amdsmi_get_gpu_device_uuid"),
        "ecc": {kind: _number(ecc.get(f"{kind}_count")) for kind in ("correctable", "uncorrectable", "deferred")},
        "bad_pages": len(pages) if isinstance(pages, list) else None,
        "bad_pages_limit": _number(ask("amdsmi_get_gpu_bad_page_threshold")),
        "held_down": [words for name, words in _HELD_DOWN.items() if violations.get(name) is True],
        "xgmi_links": [str(link) for link in xgmi.get("status", ())],
        "xgmi_error": _name(ask("amdsmi_gpu_xgmi_error_status")),
        "errors": errors,
    }


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _name(value: Any) -> str | None:
    """That of an AmdSmiXgmiStatus, of which some releases give the number alone: 0 is none."""
    if value is None:
        return None
    return _XGMI_WELL if value == 0 else str(getattr(value, "name", value))


def _said(error: Exception) -> str:
    return printable(str(error), 200).strip()


def _judge(name: str, values: Values) -> Iterator[Finding]:
    for rule in RULES:
        if evidence := rule.evidence(values):
            yield Finding(rule.status, name, rule.what, rule.action, evidence)


def _uncorrected(values: Values) -> str:
    count = values["ecc"]["uncorrectable"]
    return f"{count} uncorrectable errors since the driver was loaded" if count else ""


def _bad_pages(values: Values) -> str:
    count, limit = values["bad_pages"], values["bad_pages_limit"]
    return f"{count} pages retired, {limit} may be" if count and limit and count >= limit else ""


def _links_down(values: Values) -> str:
    links = values["xgmi_links"]
    down = [str(link) for link, state in enumerate(links) if state == _DOWN]
    return f"XGMI link {', '.join(down)} of {len(links)}" if down and _UP in links else ""


def _xgmi_errors(values: Values) -> str:
    return f"XGMI: {values['xgmi_error']}" if values["xgmi_error"] not in (None, _XGMI_WELL) else ""


def _unread(values: Values) -> str:
    return ", ".join(f"{call}: {said}" for call, said in list(values["errors"].items())[:3])


_RAS = "Linux kernel documentation, AMDGPU RAS"

RULES = (
    Rule("ecc-uncorrected", Status.FAIL, Action.RESET_GPU, _uncorrected, _RAS),
    Rule("retired-pages", Status.FAIL, Action.REPLACE, _bad_pages, f"{_RAS}: bad_page_threshold"),
    Rule("xgmi-down", Status.WARN, Action.CHECK, _links_down, "AzNHC: all links of a GPU are up"),
    Rule("xgmi-errors", Status.WARN, Action.CHECK, _xgmi_errors, "amdsmi.h, amdsmi_xgmi_status_t"),
    Rule(
        "clocks-slowed",
        Status.WARN,
        Action.CHECK,
        lambda values: ", ".join(values["held_down"]),
        "amdsmi.h, amdsmi_violation_status_t",
    ),
    Rule("not-readable", Status.UNKNOWN, Action.CHECK, _unread, "what cannot be told is not well"),
)
