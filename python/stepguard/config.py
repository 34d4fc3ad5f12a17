# SPDX-License-Identifier: Apache-2.0
"""The administrator's configuration: /etc/stepguard/stepguard.toml, or $STEPGUARD_CONFIG.

Every key has a default, so no file is needed. An unknown key or a bad value is refused with the file, the key,
the value and what is allowed. Plain dataclasses, because the supervisor reads this before every guarded step:
a validation library costs 42 ms of import there, and without a file not even a TOML parser is loaded.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepguard import named_file
from stepguard.errors import ConfigError, reason

MAX_BYTES = 1 << 20
# Of one output, head and tail together: it is held in memory while it is redacted.
KEPT_MAX_KIB = 64 << 10
# poll(2) takes milliseconds in an int: some 24 days.
_MAX = 1_000_000
DEFAULT_PATH = Path("/etc/stepguard/stepguard.toml")


def _between(minimum: float, maximum: float, default: float) -> Any:
    return field(default=default, metadata={"bounds": (minimum, maximum)})


def _at_least(minimum: float, default: float) -> Any:
    """A number of times or seconds: what waits can be told that much."""
    return _between(minimum, _MAX, default)


def _one_of(default: str, *allowed: str) -> Any:
    return field(default=default, metadata={"allowed": allowed})


def _list_of(*default: str, allowed: tuple[str, ...] = (), needed: bool = False) -> Any:
    return field(default=default, metadata={"allowed": allowed, "needed": needed})


def _texts(form: str, told: str) -> Any:
    """Any number of texts of this form (a regular expression); `told`: it in words."""
    return field(default=(), metadata={"form": (form, told)})


def _patterns(*default: str) -> Any:
    return field(default=default, metadata={"patterns": True})


def _absolute_path(default: str) -> Any:
    return field(default=default, metadata={"absolute": True})


def _absolute_paths(*default: str) -> Any:
    return field(default=default, metadata={"absolute": True})


def _optional_path(default: str = "", *words: str) -> Any:
    """A path, "", or one of these words."""
    return field(default=default, metadata={"absolute": True, "optional": True, "words": words})


STRATEGIES = ("spare", "expand", "splice", "wait", "shrink", "requeue")


@dataclass(frozen=True)
class Resume:
    """[resume]: when a guarded step is started again, and how. Times are in seconds."""

    # Resumes of one step of one job, requeues counted in; 0 guards nothing but still tells the verdict.
    max_resumes: int = _at_least(0, 5)
    # The same failure three times, each within this time of its start, is a crash loop.
    min_progress_s: float = _at_least(0, 60.0)
    # Also resume after a fault of the network that no node is to blame for.
    resume_network: bool = False
    # Refuse a step in an allocation that shares its nodes with other jobs.
    require_exclusive: bool = True
    # Which strategies are tried, in this order.
    strategies: tuple[str, ...] = _list_of(*STRATEGIES, allowed=STRATEGIES)
    # Each node says that it lives this often, and is asked about after this silence.
    heartbeat_s: float = _at_least(0.1, 1.0)
    silence_s: float = _at_least(0.5, 3.0)
    # A silent node whose slurmd does not answer a TCP connection for this long is lost.
    probe_s: float = _at_least(0.1, 1.0)
    # A batch host that all others cannot reach for this long is lost: they have the job requeued. Slurm frees the job
    # from it after SlurmdTimeout anyway, so there is no hurry, and a cable may be plugged in again.
    batch_host_s: float = _at_least(0, 20.0)
    # Between SIGTERM and SIGKILL for the tasks of an attempt that is ended; 0 sends SIGKILL at once.
    term_grace_s: float = _at_least(0, 0.0)
    # How long the old tasks may take to disappear from the surviving nodes.
    old_step_end_s: float = _at_least(0, 30.0)
    # wait: how long a lost node gets to come back.
    wait_s: float = _at_least(0, 600.0)
    # expand: how long the helper job may stay in the queue.
    expand_s: float = _at_least(1, 60.0)
    # splice: how long the helper job may stay in the queue; 0 switches it off.
    splice_wait: float = _at_least(0, 120.0)
    # Which programs find their place in MPI's own way (PMI), and so can neither be spliced nor keep their ranks:
    # auto: those with another --mpi (or MpiDefault) than none; never: none of them, whatever --mpi says.
    pmi: str = _one_of("auto", "auto", "never")
    # After a node was replaced all others keep their ranks, where the program is not started through PMI.
    keep_ranks: bool = True
    # Less time than this left in the job is not worth a resume.
    min_time_left_s: float = _at_least(0, 60.0)
    # A drained node counts as faulty when its reason matches one of these (regular expressions, no case).
    hardware_reasons: tuple[str, ...] = _patterns(
        r"\bAction:(Replace|Reboot)\b", r"\bxid\b", r"\becc\b", r"\bgpu\b", r"\bnvlink\b", r"hardware"
    )
    # Written by an administrator, a health check or a test on a node (stepguard.faults).
    fault_file: str = _absolute_path("/run/stepguard/fault")


@dataclass(frozen=True)
class Slurm:
    """[slurm]: how stepguard talks with Slurm."""

    # auto: pyslurm when its release equals the cluster's, else the commands.
    form: str = _one_of("auto", "auto", "commands", "pyslurm")
    # What the commands are asked to print: text (fast, every release) or json (needs Slurm's json plugins).
    output: str = _one_of("text", "text", "json")
    # Bound on one command.
    timeout_s: float = _at_least(1, 30.0)


@dataclass(frozen=True)
class Agent:
    """[agent]: the daemon on each node, and those who speak to it. C reads the first five keys too, so they must be
    written as `key = value` on one line below [agent] (spank/agent_settings.c)."""

    socket: str = _absolute_path("/run/stepguard/agent.sock")
    # What has been taken in and is not in the archive yet; root's alone.
    spool: str = _absolute_path("/var/spool/stepguard")
    # How long a hook or a slurmstepd waits for the agent, in milliseconds.
    deadline_ms: int = _between(1, 60_000, 500)
    # The prolog fails, and Slurm drains the node and requeues the job, on a definite verdict that its hardware is bad.
    gate: bool = False
    # Tasks get the step's real nodes in SLURM_JOB_NODELIST, SLURM_NODELIST and the like where those are stale.
    repair_nodelist: bool = False
    # The spool's bound, in MiB. Above 80 % no more output is kept, above 90 % no more environments and scripts.
    spool_max_mib: int = _between(16, 1 << 20, 1024)
    # How long the output of a job may take to be read: its file system may hang.
    output_read_s: float = _between(1, 3600, 30.0)


@dataclass(frozen=True)
class Archive:
    """[archive]: where the records of jobs are kept, and what of them."""

    dir: str = _absolute_path("/var/lib/stepguard/archive")
    # How much of the beginning and of the end of stdout and stderr is kept, in KiB.
    head_kib: int = _between(0, KEPT_MAX_KIB, 64)
    tail_kib: int = _between(0, KEPT_MAX_KIB, 1024)
    # Rules of a site's own, beside those that come with stepguard: a file as redaction/rules.toml; "" for none.
    redaction_rules: str = _optional_path()
    # Rules of stepguard's own that a site does without, by their names.
    redaction_off: tuple[str, ...] = _list_of()
    # The cluster's secret that fingerprints of redacted values are keyed with; "" for one a node, made by the agent.
    fingerprint_key: str = _optional_path()
    # Who may read everybody's records besides root: names of groups.
    admin_groups: tuple[str, ...] = _list_of()


REACTIONS = ("none", "drain", "fail")
KERNEL_LOG_WORDS = ("auto", "journald")


@dataclass(frozen=True)
class Health:
    """[health]: how a node is looked at, and what is done about it. Times are in seconds."""

    # What the agent does in Slurm to its node when hardware has failed: nothing; a drain, which we lift when it is well
    # again; or state=fail with the reason Action:Replace or Action:Reboot.
    reaction: str = _one_of("none", *REACTIONS)
    # Never to more than so many nodes of the cluster, nor to more of a partition (one always may), within this time.
    max_nodes: int = _at_least(0, 3)
    max_fraction: float = _between(0.0, 1.0, 0.1)
    window_s: float = _at_least(1, 3600.0)
    # Which probes run, and how often. "all": every one that there is.
    probes: tuple[str, ...] = _list_of("all", needed=True)
    cycle_s: float = _between(1, 86400, 60.0)
    # What must be: units of systemd active, file systems mounted, ports of RDMA devices up; [] is every port that was.
    services: tuple[str, ...] = _texts(r"[\w:.\\@-]+", "the name of a unit of systemd")
    mounts: tuple[str, ...] = _absolute_paths()
    ports: tuple[str, ...] = _texts(r"[\w.-]+/\d+", "a device and its port, as mlx5_0/1,")
    # Directories whose file systems must not be full; one that is not there is left out.
    filesystems: tuple[str, ...] = _absolute_paths("/", "/tmp", "/dev/shm", "/var/spool/stepguard")
    # Less that is free is a warning, in percent; 0 is none.
    memory_free_percent: float = _between(0, 100, 1.0)
    space_free_percent: float = _between(0, 100, 5.0)
    inodes_free_percent: float = _between(0, 100, 5.0)
    # So many zombies are a warning, and a process that does not end for so long when it was killed is a fault.
    zombies: int = _between(1, 1 << 22, 200)
    unkillable_s: float = _at_least(1, 60.0)
    # The kernel's log, read as it comes: "auto" (/dev/kmsg, and where that cannot be read, journald), "journald",
    # "/dev/kmsg", or the file of a syslog daemon; "" leaves it unread.
    kernel_log: str = _optional_path("auto", *KERNEL_LOG_WORDS)
    # Nobody but the kernel can have lines written into that file that look like its own.
    kernel_log_trusted: bool = False
    # Hear of XIDs from NVIDIA's driver too. It keeps the GPUs open: none can be reset, nor the driver unloaded.
    gpu_events: bool = True
    # What a probe no longer finds is gone after this time.
    clear_s: float = _at_least(0, 300.0)
    # What has come so often within this time must be away for as long.
    flaps: int = _at_least(2, 3)
    flap_window_s: float = _at_least(0, 3600.0)
    # For how long an event of the kernel counts that nothing has mended: broken hardware, and anything else.
    hardware_age_s: float = _at_least(60, 604_800.0)
    warning_age_s: float = _at_least(60, 3600.0)
    # A node on whose GPUs so many jobs have failed within this time is taken last as a spare.
    lemon_jobs: int = _at_least(1, 3)
    lemon_window_s: float = _between(60, 31_536_000, 604_800.0)
    # Rows of a site's own, over those of the catalogue that comes with stepguard; "" for none.
    catalogue: str = _optional_path()


@dataclass(frozen=True)
class Config:
    """The whole configuration, one attribute a section; `path` is None where there is no file."""

    resume: Resume = field(default_factory=Resume)
    slurm: Slurm = field(default_factory=Slurm)
    agent: Agent = field(default_factory=Agent)
    archive: Archive = field(default_factory=Archive)
    health: Health = field(default_factory=Health)
    path: Path | None = None


_SECTIONS: dict[str, type] = {
    "resume": Resume,
    "slurm": Slurm,
    "agent": Agent,
    "archive": Archive,
    "health": Health,
}


def load(path: Path | None = None) -> Config:
    """Reads the configuration from `path`, else $STEPGUARD_CONFIG, else the default place, which may be absent.

    Raises ConfigError when a file that was named cannot be read, is no TOML, or has a wrong key or value.
    """
    named = path or (Path(os.environ["STEPGUARD_CONFIG"]) if os.environ.get("STEPGUARD_CONFIG") else None)
    chosen = named or DEFAULT_PATH
    try:
        text = named_file.read(chosen, MAX_BYTES).decode()
    except FileNotFoundError:
        if named is None:
            return Config()
        raise ConfigError("no such configuration file", str(chosen), "name one that exists") from None
    except (OSError, UnicodeDecodeError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        where = why if str(chosen) in why else f"{chosen}: {why}"
        advice = f"it must be a text file that all can read, of {MAX_BYTES >> 20} MiB at most"
        raise ConfigError("cannot read the configuration", where, advice) from error
    return parse(text, chosen)


def parse(text: str, path: Path) -> Config:
    """The configuration that `text` says; `path` is named in errors. Raises ConfigError."""
    import tomllib

    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of 5000 digits; a list in a list in a list…
        raise ConfigError("not TOML", f"{path}: {error}", "correct it there; the example has every key") from error
    _refuse_unknown(document, _SECTIONS, str(path), "section")
    sections = {}
    for name, section in _SECTIONS.items():
        values = document.get(name, {})
        if not isinstance(values, dict):
            raise ConfigError("a section is needed", f"{path}: {name}", f"write [{name}] above its keys")
        sections[name] = _read_section(values, section, f"{path}: [{name}]")
    config = Config(**sections, path=path)
    if (kept_kib := config.archive.head_kib + config.archive.tail_kib) > KEPT_MAX_KIB:
        where = f"{path}: [archive] head_kib and tail_kib"
        raise ConfigError(f"bad sum {kept_kib}", where, f"at most {KEPT_MAX_KIB} together is needed")
    return config


def _refuse_unknown(given: dict[str, Any], known: Any, where: str, what: str) -> None:
    for key in given:
        if key not in known:
            raise ConfigError(f"unknown {what} {key!r}", where, "known: " + ", ".join(known))


def _read_section(values: dict[str, Any], section: type, where: str) -> Any:
    from stepguard.config_values import checked

    fields = {f.name: f for f in dataclasses.fields(section)}
    _refuse_unknown(values, fields, where, "key")
    return section(**{key: checked(value, fields[key], f"{where} {key}") for key, value in values.items()})
