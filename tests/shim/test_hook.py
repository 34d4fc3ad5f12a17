# SPDX-License-Identifier: Apache-2.0
"""Prolog, epilog and health check as slurmd starts them: what the agent hears, what slurmd reads and gets back."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shim import listeners
from shim.built import REPOSITORY, SANITIZE
from shim.delivering import DEADLINE_MS, LATE_S
from stepguard.records import wire

# As slurmd 22.05 gives it; the last two are a user's.
ENVIRONMENT = {
    "SLURMD_NODENAME": "n3",
    "SLURM_CLUSTER_NAME": "lab",
    "SLURM_JOB_ID": "12",
    "SLURM_JOBID": "12",
    "SLURM_JOB_UID": "1000",
    "SLURM_JOB_GID": "100",
    "SLURM_JOB_COMMENT": 'a "b"\n\x1b[31m$(reboot);`reboot`',
    "SLURM_JOB_GPUS": "0,1",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "ROCR_VISIBLE_DEVICES": "0",
    "GPU_DEVICE_ORDINAL": "0,1",
    "ZE_AFFINITY_MASK": "0",
    "SPANK_SECRET": "1",
    "CUDA_VISIBLE_DEVICES_2": "1",
}
USERS = {"SPANK_SECRET", "CUDA_VISIBLE_DEVICES_2"}
PROLOG = {"SLURM_SCRIPT_CONTEXT": "prolog_slurmd"}


class Ended(NamedTuple):
    status: int
    said: str
    wall_s: float


class Hooks:
    """The three programs, with a configuration of their own compiled in."""

    def __init__(self, directory: Path, sanitized: bool) -> None:
        self.directory = directory
        self.sanitized = sanitized
        self.socket = directory / "agent.sock"
        self.spool = directory / "spool"
        self.config = directory / "stepguard.toml"
        self.configure("")
        flags = [f"CFLAGS={SANITIZE}", "STATIC="] if sanitized else []
        define = f"DEFINES=-DSTEPGUARD_CONFIG='\"{self.config}\"'"
        command = ["make", "-s", "-C", str(REPOSITORY / "hooks"), f"OUT={directory}", define, *flags]
        subprocess.run([*command, f"{directory}/hook"], check=True)
        for name in ("prolog", "epilog", "health_check", "stepguard"):
            (directory / name).symlink_to("hook")

    def configure(self, more: str) -> None:
        """What stands in stepguard.toml besides."""
        self.config.write_text(
            f'[agent]\nsocket = "{self.socket}"\nspool = "{self.spool}"\ndeadline_ms = {DEADLINE_MS}\n{more}\n'
        )

    def run(self, name: str, more: Mapping[str, str | bytes], argv0: str | None = None, **popen: Any) -> Ended:
        program = self.directory / name
        begin = time.monotonic()
        done = subprocess.run(
            [argv0 if argv0 is not None else str(program)],
            executable=program,
            env={**ENVIRONMENT, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=40,
            check=False,
            **popen,
        )
        return Ended(done.returncode, done.stdout.decode(), time.monotonic() - begin)

    def notes(self) -> list[dict[str, bytes]]:
        return [wire.decode(path.read_bytes()) for path in sorted(self.spool.glob("notes/*"))]


@pytest.fixture(scope="module", params=["plain", "sanitized"])
def built(request: pytest.FixtureRequest) -> Iterator[Hooks]:
    with listeners.short_directory() as directory:
        yield Hooks(directory, request.param == "sanitized")


@pytest.fixture
def hooks(built: Hooks) -> Hooks:
    subprocess.run(["rm", "-rf", built.socket, built.spool], check=True)
    built.configure("")
    return built


def entries(fields: Mapping[str, bytes]) -> list[bytes]:
    return fields["environment"].split(b"\0")[:-1]


# -- what the agent hears ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "context", "kind"),
    [
        ("prolog", "prolog_slurmd", b"prolog"),
        ("epilog", "epilog_slurmd", b"epilog"),
        ("prolog", "epilog_slurmd", b"epilog"),
        ("hook", "prolog_slurmd", b"prolog"),
        ("prolog", None, b"prolog"),
        ("epilog", None, b"epilog"),
        ("health_check", None, b"health_check"),
    ],
)
def test_message(hooks: Hooks, name: str, context: str | None, kind: bytes) -> None:
    more = {"SLURM_SCRIPT_CONTEXT": context} if context else {}
    with listeners.answering(hooks.socket) as messages:
        ended = hooks.run(name, more)
    assert (ended.status, ended.said) == (0, "")
    fields = wire.decode(messages[0])
    names = ["kind", "time_ns", "boottime_ns", "boot_id", "node", "job_id", "uid", "gid"]
    assert list(fields) == [*names, "environment_size", "environment"]
    assert [fields[name] for name in ("kind", "node", "job_id", "uid", "gid")] == [kind, b"n3", b"12", b"1000", b"100"]
    expected = {**{name: value for name, value in ENVIRONMENT.items() if name not in USERS}, **more}
    assert sorted(entries(fields)) == sorted(f"{name}={value}".encode() for name, value in expected.items())
    assert int(fields["environment_size"]) == len(fields["environment"])
    assert not hooks.spool.exists()


def test_message_without_a_job(hooks: Hooks) -> None:
    """A health check gets nothing else (22.05, 26.05)."""
    env = {"SLURMD_NODENAME": "n3"}
    with listeners.answering(hooks.socket) as messages:
        done = subprocess.run([hooks.directory / "health_check"], env=env, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    fields = wire.decode(messages[0])
    assert list(fields) == [
        *("kind", "time_ns", "boottime_ns", "boot_id", "node"),
        *("environment_size", "environment"),
    ]
    assert entries(fields) == [b"SLURMD_NODENAME=n3"]


@pytest.mark.parametrize("job_id", ["", "-1", "1 2", "0x10", "12\n", "1" * 21, "\u0661"])
def test_job_id_that_is_none(hooks: Hooks, job_id: str) -> None:
    with listeners.answering(hooks.socket, b"refused a prolog without a job\n") as messages:
        ended = hooks.run("prolog", {"SLURM_JOB_ID": job_id})
    fields = wire.decode(messages[0])
    assert "job_id" not in fields
    assert f"SLURM_JOB_ID={job_id}".encode() in entries(fields)
    assert ended.said == f"stepguard: prolog: the agent at {hooks.socket}: refused a prolog without a job\n"


def test_environment_is_bounded(hooks: Hooks) -> None:
    large: dict[str, str | bytes] = {f"SLURM_JOB_{number}": b"\xff" * 65_000 for number in range(12)}
    with listeners.answering(hooks.socket) as messages:
        assert hooks.run("prolog", {**large, **PROLOG}).status == 0
    fields = wire.decode(messages[0])
    assert len(fields["environment"]) <= 512 << 10
    assert int(fields["environment_size"]) > 12 * 65_000
    taken = entries(fields)
    assert sum(entry.startswith(b"SLURM_JOB_") and entry.endswith(b"\xff" * 65_000) for entry in taken) == 8
    assert b"ZE_AFFINITY_MASK=0" in taken


@pytest.mark.parametrize("context", ["prolog_slurmctld", "prolog_task", "epilog_srun", ""])
def test_place_where_it_does_not_belong(hooks: Hooks, context: str) -> None:
    with listeners.answering(hooks.socket) as messages:
        ended = hooks.run("prolog", {"SLURM_SCRIPT_CONTEXT": context})
    assert (ended.status, messages) == (0, [])
    assert ended.said.endswith("Prolog, Epilog or HealthCheckProgram, and none of these now: nothing is done\n")


@pytest.mark.parametrize("argv0", ["/", "prologue", "x/prolog/"])
def test_name_that_says_nothing(hooks: Hooks, argv0: str) -> None:
    assert hooks.run("stepguard", {}, argv0=argv0).said.startswith(f"stepguard: {argv0}: slurmd's Prolog")


# -- what slurmd gets back ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "gate", "reply", "status"),
    [
        ("prolog", True, b"fail GPU 3: XID 79\n", 1),
        ("prolog", False, b"fail GPU 3: XID 79\n", 0),
        ("epilog", True, b"fail GPU 3: XID 79\n", 0),
        ("health_check", True, b"fail GPU 3: XID 79\n", 0),
        ("prolog", True, b"ok\n", 0),
        ("prolog", True, b"refused spool full\n", 0),
        ("prolog", True, b"fail\n", 0),
        ("prolog", True, b"fail GPU 3", 0),
        ("prolog", True, b"failed GPU 3\n", 0),
        ("prolog", True, b"", 0),
    ],
)
def test_gate(hooks: Hooks, name: str, gate: bool, reply: bytes, status: int) -> None:
    hooks.configure(f"gate = {str(gate).lower()}")
    with listeners.answering(hooks.socket, reply):
        ended = hooks.run(name, {})
    assert ended.status == status
    assert len(ended.said.splitlines()) == (reply != b"ok\n")
    if reply.startswith(b"fail GPU 3: "):
        assert ended.said == f"stepguard: {name} of job 12: GPU 3: XID 79\n"


def test_gate_without_an_agent(hooks: Hooks) -> None:
    hooks.configure("gate = true")
    assert hooks.run("prolog", PROLOG).status == 0


def test_note(hooks: Hooks) -> None:
    ended = hooks.run("epilog", {"SLURM_SCRIPT_CONTEXT": "epilog_slurmd"})
    said = f"no agent at {hooks.socket}: No such file or directory: left a note in the spool"
    assert (ended.status, ended.said) == (0, f"stepguard: epilog of job 12: {said}\n")
    (note,) = hooks.notes()
    assert (note["kind"], note["job_id"]) == (b"epilog", b"12")
    assert b"SLURM_JOB_GPUS=0,1" in entries(note)


def test_health_check_leaves_no_note(hooks: Hooks) -> None:
    ended = hooks.run("health_check", {})
    assert (ended.status, hooks.notes()) == (0, [])
    assert ended.said.endswith(f": no agent at {hooks.socket}: No such file or directory\n")


def test_neither_agent_nor_spool(hooks: Hooks) -> None:
    hooks.spool.touch()
    ended = hooks.run("prolog", PROLOG)
    assert ended.status == 0
    assert len(ended.said.splitlines()) == 1
    assert f"no note in {hooks.spool} either" in ended.said


def test_hung_agent_and_the_pipe(hooks: Hooks) -> None:
    """The deadline holds, and a descriptor that slurmd left open ends at once."""
    hooks.configure("deadline_ms = 10000")
    reading, writing = os.pipe()
    with listeners.never_accepting(hooks.socket):
        process = subprocess.Popen(
            [hooks.directory / "prolog"], env={**ENVIRONMENT, **PROLOG}, pass_fds=[writing], stderr=subprocess.DEVNULL
        )
        os.close(writing)
        assert os.read(reading, 1) == b""
        assert process.poll() is None
        process.kill()
        process.wait()
        os.close(reading)
        hooks.configure("")
        ended = hooks.run("prolog", PROLOG)
    assert ended.status == 0
    assert DEADLINE_MS / 1000 <= ended.wall_s < LATE_S
    assert "no answer within 300 ms: left a note" in ended.said


# -- what it does not depend on ----------------------------------------------------------------------------------------


def test_surroundings(hooks: Hooks, tmp_path: Path) -> None:
    """No cwd, no file descriptors, a strange locale, a mask for files, and a configuration that a user would like."""
    (tmp_path / "mine.toml").write_text(f'[agent]\nspool = "{tmp_path}"\n')
    more = {"LC_ALL": "tr_TR.UTF-8", "STEPGUARD_CONFIG": str(tmp_path / "mine.toml"), **PROLOG}
    script = 'mkdir gone; cd gone; rmdir ../gone; umask 077; exec "$0" <&- >&- 2>&-'
    with listeners.answering(hooks.socket) as messages:
        done = subprocess.run(
            ["/bin/sh", "-c", script, str(hooks.directory / "prolog")],
            env={**ENVIRONMENT, **more},
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert wire.decode(messages[0])["kind"] == b"prolog"


def test_nobody_reads_what_it_says(hooks: Hooks) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [hooks.directory / "prolog"],
        env={**ENVIRONMENT, **PROLOG},
        stderr=writing,
        check=False,
        restore_signals=False,
        preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL),
    )
    os.close(writing)
    assert done.returncode == 0
    assert len(hooks.notes()) == 1


def test_no_other_program_is_started(hooks: Hooks, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-o", str(trace), "-e", "trace=process,network,openat", str(hooks.directory / "prolog")]
    if hooks.sanitized:
        pytest.skip("a sanitizer opens much of its own")
    try:
        subprocess.run(command, env={**ENVIRONMENT, **PROLOG}, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no strace here")
    calls = [line.split(maxsplit=1)[1] for line in trace.read_text().splitlines()]
    assert len([call for call in calls if call.startswith("execve(")]) == 1
    assert not [call for call in calls if call.startswith(("clone", "fork", "vfork"))]
    opened = [call.split('"')[1] for call in calls if call.startswith("openat(")]
    system = [path for path in opened if path.startswith("/") and not path.startswith(str(hooks.directory))]
    assert system == ["/dev/null", "/proc/sys/kernel/random/boot_id"]
