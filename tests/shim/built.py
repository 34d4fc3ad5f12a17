# SPDX-License-Identifier: Apache-2.0
"""The plugin in a host of our own: built, put below a prefix, loaded as Slurm loads it.

In place of the supervisor stands a program that says how it was started.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
SRUN_BLOCKS = "1 2 3 10 12 13 14 15 18 28 "
"""The signals that srun has blocked when it loads plugins, 22.05 to 25.11: the host does the same."""

SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -O1 -g"
SANITIZER_ENV = {
    # The interpreter frees nothing at its end, and the plugin has /proc/self/cmdline read when it execs.
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
    "UBSAN_OPTIONS": "halt_on_error=1:abort_on_error=1",
}

# Prints the process that it finds itself in.
_SUPERVISOR = """
import json, os, sys

status = dict(line.rstrip().split(":\\t", 1) for line in open("/proc/self/status") if line.startswith("Sig"))
print(json.dumps({
    "argv": [os.fsencode(word).hex() for word in sys.argv[1:]],
    "env": dict(os.environ),
    "blocked": int(status["SigBlk"], 16),
    "ignored": int(status["SigIgn"], 16),
    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")),
    "package": __file__.rpartition("/")[0],
    "isolated": sys.flags.isolated,
}))
sys.exit(7)
"""


@dataclass(frozen=True)
class Outcome:
    """What became of an srun, sbatch or salloc."""

    status: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        """What the user read."""
        return self.stderr.splitlines()

    @property
    def plain(self) -> dict[str, Any]:
        """The state in which a plain step would have been started. Fails when none would."""
        assert self.status == 0, self
        report: dict[str, Any] = {"env": []}
        for line in self.stdout.splitlines():
            name, _, value = line.partition("=")
            if name == "env":
                report["env"].append(value)
            else:
                report[name] = value
        assert "python" in report, self
        return report

    @property
    def task(self) -> list[bytes]:
        """The environment that slurmstepd would start the task with."""
        assert self.status == 0, self
        lines = [line for line in self.stdout.splitlines() if line.startswith("task=")]
        return [bytes.fromhex(line.removeprefix("task=")) for line in lines]

    @property
    def supervised(self) -> dict[str, Any]:
        """How the supervisor was started; "argv" as bytes. Fails when it was not."""
        assert self.status == 7, self
        state: dict[str, Any] = json.loads(self.stdout)
        state["argv"] = [bytes.fromhex(word) for word in state["argv"]]
        return state


class Shim:
    """A built plugin below `prefix`, and the host that loads it."""

    def __init__(self, prefix: Path, host: Path, sanitized: bool) -> None:
        self.prefix = prefix
        self.host = host
        self.step_host = host.with_name("host_step")
        self.sanitized = sanitized
        self.plugin = prefix / "lib/slurm/stepguard.so"
        self.bridge = prefix / "lib/stepguard/bridge.so"
        self.packages = Path(
            sysconfig.get_path("purelib", vars={"base": str(prefix / "venv"), "platbase": str(prefix / "venv")})
        )

    def run(
        self,
        words: Sequence[str | bytes],
        env: Mapping[str, str | bytes] | None = None,
        context: str = "local",
        plugstack: str = "optional {plugin}",
        script: Path | None = None,
        **popen: Any,
    ) -> Outcome:
        """Runs the host as `words`. Without SLURM_JOB_ID in `env`, it is outside of any allocation."""
        file = self.prefix / "plugstack.conf"
        file.write_text(plugstack.format(plugin=self.plugin) + "\n")
        host = {"HOST_PLUGSTACK": str(file), "HOST_CONTEXT": context, "HOST_SCRIPT": str(script or "")}
        base = {"PATH": os.environ["PATH"], **(SANITIZER_ENV if self.sanitized else {})}
        done = subprocess.run(
            list(words),
            executable=self.host,
            env={**base, **host, **(env or {})},
            capture_output=True,
            timeout=30,
            check=False,
            **popen,
        )
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


def build(directory: Path, sanitized: bool) -> Shim:
    """Builds plugin, bridge and host, and lays out a prefix as `make install` does."""
    prefix, out = directory / "prefix", directory / "out"
    sanitize = [f"CFLAGS={SANITIZE}"] if sanitized else []
    python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    settings = [f"OUT={out}", f"PREFIX={prefix}", "SLURM_INCLUDE=/usr/include", f"PYTHON={python}"]
    _call(["make", "-s", "-C", str(REPOSITORY / "spank"), *settings, f"CFFI_PYTHON={sys.executable}", *sanitize])
    host = out / "host"
    options = SANITIZE if sanitized else "-O1 -g"
    flags = f"-Wall -Wextra -Werror -D_GNU_SOURCE {options} -rdynamic -pthread"
    for program in (host, host.with_name("host_step")):
        sources = [str(HERE / f"{program.name}.c"), str(HERE / "host_task.c")]
        _call(["cc", *flags.split(), "-o", str(program), *sources])
    shim = Shim(prefix, host, sanitized)
    for library, name in ((shim.plugin, "stepguard.so"), (shim.bridge, "bridge.so")):
        library.parent.mkdir(parents=True)
        shutil.copy(out / name, library)
    _call([str(python), "-m", "venv", "--without-pip", str(prefix / "venv")])
    shutil.copytree(REPOSITORY / "python" / "stepguard", shim.packages / "stepguard")
    (shim.packages / "stepguard/__main__.py").write_text(_SUPERVISOR)
    shutil.copy(importlib.import_module("_cffi_backend").__file__ or "", shim.packages)
    for package in ("tree_sitter", "tree_sitter_bash"):
        shutil.copytree(Path(importlib.import_module(package).__file__ or "").parent, shim.packages / package)
    # Which is what takes the time in a check of a job script, and nobody writes the bytecode later.
    _call([str(python), "-m", "compileall", "-q", str(shim.packages / "stepguard/scripts")])
    command = prefix / "bin/stepguard"
    command.parent.mkdir()
    command.write_text((REPOSITORY / "spank/launcher.py").read_text().replace("/opt/stepguard", str(prefix)))
    return shim


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
