# SPDX-License-Identifier: Apache-2.0
"""A wrong configuration is refused with file, key, value and what is allowed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepguard.config import Config, load, parse
from stepguard.errors import ConfigError

PATH = Path("/etc/stepguard/stepguard.toml")


def test_without_a_file_every_key_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEPGUARD_CONFIG", raising=False)
    monkeypatch.setattr("stepguard.config.DEFAULT_PATH", Path("/nonexistent/stepguard.toml"))
    assert load() == Config()


def test_values_are_read_and_whole_numbers_do_for_seconds() -> None:
    config = parse('[resume]\nmax_resumes = 2\nsilence_s = 4\nstrategies = ["spare"]\n[slurm]\nform = "commands"', PATH)
    assert config.resume.max_resumes == 2
    assert config.resume.silence_s == 4.0
    assert config.resume.strategies == ("spare",)
    assert config.slurm.form == "commands"


def test_what_a_node_must_have() -> None:
    text = 'services = ["slurmd", "getty@tty1.service"]\nmounts = ["/home"]\nports = ["mlx5_0/1"]\nfilesystems = []'
    health = parse(f"[health]\n{text}\ninodes_free_percent = 2", PATH).health
    assert (health.services, health.mounts) == (("slurmd", "getty@tty1.service"), ("/home",))
    assert (health.ports, health.filesystems, health.inodes_free_percent) == (("mlx5_0/1",), (), 2.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[resumes]", ["unknown section 'resumes'", "known: resume, slurm"]),
        ("[resume]\nmax_resume = 1", ["unknown key 'max_resume'", "max_resumes"]),
        ("[resume]\nmax_resumes = -1", ["[resume] max_resumes", "-1", "at least 0"]),
        ("[resume]\nmax_resumes = true", ["True", "a whole number is needed"]),
        ("[resume]\nmax_resumes = 1.5", ["1.5", "a whole number is needed"]),
        ("[resume]\nsilence_s = nan", ["nan", "at least"]),
        ("[resume]\nsilence_s = inf", ["inf", "at least"]),
        ("[resume]\nresume_network = 1", ["true or false is needed"]),
        ('[resume]\nstrategies = ["spare", "splace"]', ["splace", "allowed: spare"]),
        ('[resume]\nstrategies = "spare"', ["list of strings"]),
        ('[resume]\nhardware_reasons = ["xid", "("]', ["hardware_reasons", "'('", "a regular expression is needed"]),
        ('[resume]\nfault_file = ""', ["fault_file", "''", "an absolute path is needed"]),
        ('[slurm]\nform = "cli"', ["'cli'", "allowed: auto, commands, pyslurm"]),
        ("[agent]\ndeadline_ms = 0", ["[agent] deadline_ms", "at least 1 and at most 60000"]),
        ("[agent]\ndeadline_ms = 99999999999999999999999", ["[agent] deadline_ms", "at least 1 and at most 60000"]),
        ("[agent]\nspool_max_mib = 1048577", ["spool_max_mib", "at least 16 and at most 1048576"]),
        ("[agent]\noutput_read_s = 1e300", ["output_read_s", "at most 3600"]),
        ("[agent]\nsocket = 3", ["socket", 'a text in quotes, "…", is needed']),
        ('[agent]\nsocket = "/a\\u0000b"', ["an absolute path is needed"]),
        ('[archive]\ndir = "/a\\u001b[2J"', ["'/a\\x1b[2J'", "of printable characters"]),
        ('[archive]\ndir = "/a\\nb"', ["'/a\\nb'", "of printable characters"]),
        ("[archive]\nhead_kib = 65537", ["head_kib", "at most 65536"]),
        ("[archive]\nhead_kib = 65000\ntail_kib = 600", ["head_kib and tail_kib", "65600", "at most 65536 together"]),
        ('[archive]\nredaction_rules = "rules.toml"', ["redaction_rules", "an absolute path is needed"]),
        ('[health]\nreaction = "replace"', ["[health] reaction", "'replace'", "allowed: none, drain, fail"]),
        ("[health]\nmax_fraction = 1.5", ["max_fraction", "1.5", "at least 0 and at most 1"]),
        ("[health]\nmax_fraction = 10", ["max_fraction", "10", "at most 1"]),
        ("[health]\nmax_nodes = 0.1", ["max_nodes", "a whole number is needed"]),
        ("[health]\nmax_nodes = -1", ["max_nodes", "-1", "at least 0"]),
        ("[health]\nwindow_s = 0", ["window_s", "0", "at least 1"]),
        ("[health]\ncycle_s = 0", ["cycle_s", "0", "at least 1 and at most 86400"]),
        ("[health]\nflaps = 1", ["flaps", "1", "at least 2"]),
        ("[health]\nhardware_age_s = 1", ["hardware_age_s", "at least 60"]),
        ("[health]\nlemon_jobs = 0", ["lemon_jobs", "at least 1"]),
        ('[health]\nprobes = "nvml"', ["probes", "a list of strings"]),
        ("[health]\nprobes = []", ["probes", "at least one is needed"]),
        ('[health]\ncatalogue = "rows.toml"', ["catalogue", "an absolute path is needed"]),
        ('[health]\ncatalogue = "auto"', ["catalogue", "an absolute path is needed"]),
        ('[health]\nkernel_log = "syslog"', ["kernel_log", "'syslog'", '"auto" or "journald" or an absolute path']),
        ('[health]\nservices = ["a b"]', ["services", "'a b'", "the name of a unit of systemd is needed"]),
        ('[health]\nservices = [""]', ["services", "''", "the name of a unit of systemd is needed"]),
        ('[health]\nservices = "slurmd"', ["services", "a list of strings"]),
        ('[health]\nmounts = ["home"]', ["mounts", "'home'", "an absolute path is needed"]),
        ('[health]\nmounts = ["/home", "/a\\nb"]', ["mounts", "of printable characters"]),
        ('[health]\nfilesystems = [""]', ["filesystems", "''", "an absolute path is needed"]),
        ('[health]\nports = ["mlx5_0"]', ["ports", "'mlx5_0'", "a device and its port, as mlx5_0/1, is needed"]),
        ("[health]\nspace_free_percent = 101", ["space_free_percent", "at least 0 and at most 100"]),
        ("[health]\nmemory_free_percent = -1", ["memory_free_percent", "at least 0 and at most 100"]),
        ("[health]\nzombies = 0", ["zombies", "at least 1"]),
        ("[health]\nunkillable_s = 0", ["unkillable_s", "at least 1"]),
        ("[health]\ndrain = true", ["unknown key 'drain'", "reaction"]),
        (f"[resume]\nsilence_s = 1{'0' * 400}", ["silence_s", "at most 1000000"]),
        ('[resume]\nsilence_s = "3"', ["silence_s", "a number is needed"]),
        (f"[resume]\nsilence_s = 1{'0' * 5000}", ["not TOML"]),
        (f"[resume]\nstrategies = {'[' * 5000}", ["not TOML"]),
        ("resume = 3", ["a section is needed", "[resume]"]),
        ("[resume", ["not TOML"]),
    ],
)
def test_refusals_name_file_key_value_and_what_is_allowed(text: str, said: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text, PATH)
    for part in [str(PATH), *said]:
        assert part in str(refused.value)


def test_a_named_file_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPGUARD_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(ConfigError, match="no such configuration file"):
        load()


@pytest.mark.parametrize("content", [b"\xff\xfe", b'[resume]\nfault_file = "\xe9"'])
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "stepguard.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="cannot read"):
        load(path)


def test_a_directory_in_its_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load(tmp_path)


@pytest.mark.parametrize("place", ["fifo", "/dev/zero", "huge"])
def test_what_cannot_be_read_to_its_end_is_refused_at_once(tmp_path: Path, place: str) -> None:
    path = tmp_path / place.rpartition("/")[2] if not place.startswith("/") else Path(place)
    if place == "fifo":
        os.mkfifo(path)
    elif place == "huge":
        path.write_bytes(b"#" * (2 << 20))
    with pytest.raises(ConfigError, match="cannot read"):
        load(path)
