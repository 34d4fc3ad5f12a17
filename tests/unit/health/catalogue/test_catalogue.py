# SPDX-License-Identifier: Apache-2.0
"""The catalogue: what its data must hold to, what it says of the codes that matter most, and a site's own rows."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from stepguard.errors import ConfigError
from stepguard.health.catalogue import lookup, shipped, status_of
from stepguard.health.catalogue.catalogue import SITE_ORIGIN, sheet, sources
from stepguard.health.model import Action, FaultClass, Status

# The sources that events can have besides dcgm; they are part of an interface.
EVENT_SOURCES = {
    "xid",
    "sxid",
    "aer",
    "link",
    "oom",
    "mce",
    "nvme",
    "lustre",
    "amdgpu",
    "nfs",
    "netfs",
    "lockup",
    "efa",
    "neuron",
}


def test_the_sources_are_those_of_events() -> None:
    assert set(sources()) == EVENT_SOURCES | {"dcgm"}


@pytest.mark.parametrize(
    ("source", "codes"), [("xid", range(1, 173)), ("dcgm", [*range(118), 120, 122, 123, 125, 128])]
)
def test_all_that_the_vendor_lists_is_there(source: str, codes: list[int]) -> None:
    assert all(lookup(source, code).is_known for code in codes)


def test_all_sxids_of_the_guide_are_there() -> None:
    assert len(shipped().entries("sxid")) >= 90


@pytest.mark.parametrize("source", sorted(EVENT_SOURCES | {"dcgm"}))
def test_rows_are_whole_and_in_our_own_words(source: str) -> None:
    entries = shipped().entries(source)
    assert len({entry.code for entry in entries}) == len(entries) > 0
    for entry in entries:
        assert entry.origin.startswith("https://")
        assert entry.meaning.endswith(".")
        assert len(entry.meaning) < 200
        assert all(text and not text.endswith(".") for text in entry.disagreements)
        assert set(entry.overridden_by) <= {"xid-154", "sub-code", "severity", "recovery"}


@pytest.mark.parametrize("source", ["xid", "sxid", "dcgm", "aer"])
def test_each_file_has_a_version(source: str) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", sheet(source).version)


@pytest.mark.parametrize(
    ("code", "fault_class", "action"),
    [
        (13, "application", "restart-application"),
        (31, "application", "restart-application"),
        (43, "application", "restart-application"),
        (48, "hardware-reset", "reset-gpu"),
        (63, "ignore", "none"),
        (64, "hardware-replace", "replace"),
        (74, "hardware-reset", "reset-gpu"),
        (79, "hardware-replace", "replace"),
        (92, "ignore", "none"),
        (94, "application", "restart-application"),
        (95, "hardware-reset", "reset-gpu"),
        (119, "hardware-reset", "reset-gpu"),
        (120, "hardware-reset", "reset-gpu"),
        (140, "hardware-reset", "reset-gpu"),
        (151, "reboot", "reboot"),
        (158, "hardware-reset", "reset-gpu"),
        (999, "ignore", "check"),
    ],
)
def test_the_xids_that_matter_most(code: int, fault_class: str, action: str) -> None:
    entry = lookup("xid", code)
    assert (entry.fault_class, entry.action) == (fault_class, action)


def test_the_class_of_each_bucket_of_nvidia() -> None:
    """A row that goes its own way says so in its disagreements."""
    classes = {
        "RESTART_APP": "application",
        "RESET_GPU": "hardware-reset",
        "RESTART_VM": "reboot",
        "IGNORE": "ignore",
        "CONTACT_SUPPORT": "ignore",
    }
    for entry in shipped().entries("xid"):
        bucket = entry.vendor.partition(";")[0]
        if bucket in classes and entry.fault_class != classes[bucket]:
            assert entry.disagreements, entry


def test_what_repeats() -> None:
    repeating = [entry.code for entry in shipped().entries("xid") if entry.repeats]
    assert repeating == [13, 31]
    repeats = lookup("xid", 13).repeats
    assert repeats is not None
    assert (repeats.count, repeats.within_s, repeats.fault_class) == (5, 86400, "hardware-reset")


def test_an_unknown_code() -> None:
    entry = lookup("xid", 12345)
    assert (entry.is_known, entry.origin, entry.name) == (False, "", "unknown")
    assert not lookup("nothing", "x").is_known


@pytest.mark.parametrize(
    ("fault_class", "action", "status"),
    [
        ("hardware-replace", "replace", "fail"),
        ("hardware-reset", "check", "fail"),
        ("hardware-reset", "none", "warn"),
        ("reboot", "reboot", "fail"),
        ("application", "restart-application", "warn"),
        ("network", "check", "warn"),
        ("network", "reboot", "fail"),
        ("memory-host", "none", "warn"),
        ("memory-host", "replace", "fail"),
        ("storage", "check", "warn"),
        ("ignore", "none", "ok"),
        ("ignore", "check", "unknown"),
    ],
)
def test_from_class_and_action_to_a_status(fault_class: str, action: str, status: str) -> None:
    assert status_of(FaultClass(fault_class), Action(action)) is Status(status)


def test_a_sites_rows_go_over_the_catalogues() -> None:
    site = shipped().with_site(
        {
            "xid": {"63": {"class": "hardware-reset", "action": "reset-gpu"}, "999": {"action": "none"}},
            "link": {"down": {"class": "ignore", "action": "none", "meaning": "Cables are pulled here all day."}},
        }
    )
    entry = site.lookup("xid", 63)
    assert (entry.fault_class, entry.action, entry.origin) == ("hardware-reset", "reset-gpu", SITE_ORIGIN)
    assert "stepguard's own row says ignore, none" in entry.disagreements[-1]
    assert site.lookup("xid", 999).is_known
    assert site.lookup("xid", 999).fault_class == "ignore"
    assert site.lookup("link", "down").meaning == "Cables are pulled here all day."
    assert site.lookup("xid", 48) == lookup("xid", 48)
    assert lookup("xid", 63).action == "none"
    assert len(site.entries("xid")) == len(shipped().entries("xid")) + 1


def test_a_second_table_goes_over_the_first() -> None:
    site = shipped().with_site({"xid": {"63": {"action": "check"}}}).with_site({"xid": {"63": {"class": "reboot"}}})
    entry = site.lookup("xid", 63)
    assert (entry.fault_class, entry.action) == ("reboot", "check")


@pytest.mark.parametrize("order", [["79"], ["79", "gone"], ["gone", "79"]])
def test_what_a_site_says_of_a_code_holds_for_the_same_event_in_other_words(order: list[str]) -> None:
    said = {"79": {"class": "application", "action": "check"}, "gone": {"action": "reboot"}}
    site = shipped().with_site({"xid": {code: said[code] for code in order}})
    lost, gone = site.lookup("xid", 79), site.lookup("xid", "gone")
    assert (lost.fault_class, lost.action) == ("application", "check")
    own = ("hardware-replace", "reboot") if "gone" in order else ("application", "check")
    assert (gone.fault_class, gone.action, gone.origin) == (*own, SITE_ORIGIN)


def test_a_sites_row_counts_for_more_than_what_the_line_tells_besides() -> None:
    site = shipped().with_site({"xid": {"149": {"meaning": "A link of NVLink 5."}, "154": {"action": "check"}}})
    assert site.lookup("xid", 149).overridden_by == ("sub-code", "xid-154")
    assert site.lookup("xid", 154).overridden_by == ()
    site = site.with_site({"xid": {"149": {"action": "check"}}, "sxid": {"20034": {"class": "network"}}})
    assert site.lookup("xid", 149).overridden_by == ("xid-154",)
    assert site.lookup("sxid", 20034).overridden_by == ()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"xids": {}}, "unknown source 'xids': .*known: xid, sxid, dcgm, aer"),
        ({"xid": 63}, "bad value 63: .*a table of codes is needed"),
        ({"xid": {"sixty": {"action": "none"}}}, "bad code 'sixty': .*a number is needed, or one of gone, "),
        ({"xid": {"9" * 10: {"action": "none"}}}, "a number is needed"),
        ({"link": {"sideways": {"action": "none"}}}, "unknown code 'sideways': .*known: down, up"),
        ({"xid": {"63": {}}}, "bad value {}: .* xid 63: a table is needed, with one or more of class, action"),
        ({"xid": {"63": "ignore"}}, "a table is needed"),
        ({"xid": {"63": {"severity": "x"}}}, "unknown key 'severity': .*known: class, action, meaning, repeats"),
        ({"xid": {"63": {"class": "hardware"}}}, "bad value 'hardware': .*allowed: hardware-replace, hardware-reset"),
        ({"xid": {"63": {"action": "drain"}}}, "bad value 'drain': .*allowed: none, restart-application, check"),
        ({"xid": {"63": {"class": ["ignore"]}}}, "allowed: hardware-replace"),
        ({"xid": {"63": {"meaning": ""}}}, "a text is needed"),
        ({"xid": {"63": {"meaning": "a" * 1001}}}, "of 1000 characters at most"),
        ({"xid": {"63": {"repeats": 5}}}, "a table is needed: count, within_s, class, action"),
        ({"xid": {"63": {"repeats": {"count": 5}}}}, "key 'within_s' is missing"),
        (
            {"xid": {"63": {"repeats": {"count": 1, "within_s": 1, "class": "reboot", "action": "none"}}}},
            "from 2 to 64",
        ),
        ({"xid": {"63": {"repeats": {"count": 65, "within_s": 1, "class": "reboot", "action": "none"}}}}, "from 2 to"),
        (
            {"xid": {"63": {"repeats": {"count": True, "within_s": 1, "class": "reboot", "action": "none"}}}},
            "from 2 to",
        ),
        ({"xid": {"63": {"repeats": {"count": 2, "within_s": 0, "class": "reboot", "action": "none"}}}}, "more than 0"),
        (
            {"xid": {"63": {"repeats": {"count": 2, "within_s": float("nan"), "class": "reboot", "action": "none"}}}},
            "more than 0",
        ),
    ],
)
def test_a_bad_row_of_a_site_is_refused_with_what_is_allowed(table: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        shipped().with_site(table)


def test_nothing_is_read_before_it_is_asked_for() -> None:
    code = (
        "import stepguard.health.catalogue.catalogue as c; assert c.sheet.cache_info().currsize == 0;"
        "c.lookup('xid', 79); assert c.sheet.cache_info().currsize == 2"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_code_that_a_site_names_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="code 79 is named twice"):
        shipped().with_site({"xid": {"79": {"action": "check"}, "079": {"action": "reboot"}}})
