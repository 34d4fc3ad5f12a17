# SPDX-License-Identifier: Apache-2.0
"""Many paired runs of commands on a host of the lab, interleaved and rotated: programs/rounds.py, started and read."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.figures import Figure, figure
from lab import Cluster, LabError, wait_until

_PROGRAM = Path(__file__).with_name("programs") / "rounds.py"
_WARM_UP = 2
# Between two runs: what the one before left to slurmctld and slurmd is done by then.
_PAUSE_S = 0.05
_RUN_S = 2.0  # far more than any run takes; only bounds a run that hangs


@dataclass(frozen=True)
class Variant:
    """One command. `env` adds to the environment; `plugstack` is the plugstack.conf it is run with (None: as is)."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    plugstack: str | None = None


@dataclass(frozen=True)
class Taken:
    """What the runs took: for each variant, by round, the Unix time of the start, seconds, CPU seconds."""

    samples: Mapping[str, Sequence[tuple[float, float, float]]]

    def began(self, name: str) -> list[float]:
        """When the runs of one variant were started."""
        return [began for began, _, _ in self.samples[name]]

    def wall_ms(self, name: str) -> Figure:
        """The wall time of one variant."""
        return figure([wall_s for _, wall_s, _ in self.samples[name]], 1e3)

    def cpu_ms(self, name: str) -> Figure:
        """Its CPU time, with that of all children that it waited for: steadier than wall time on a busy machine."""
        return figure([cpu_s for _, _, cpu_s in self.samples[name]], 1e3)


def run_rounds(
    lab: Cluster, variants: Sequence[Variant], rounds: int, *, user: str = "root", job: Sequence[str] = ()
) -> Taken:
    """Runs all variants in each of so many rounds, on the login host, or in a batch job with the options `job`.

    Only root may change plugstack.conf. Raises LabError when a run fails or takes far too long.
    """
    directory = lab.shared / f"rounds-{time.monotonic_ns()}"
    lab.run(["mkdir", "--mode=777", str(directory)], user=user)
    program, order, result = (directory / name for name in ("rounds.py", "order", "result"))
    lab.write(program, _PROGRAM.read_text(), user=user, mode=0o755)
    words = {"rounds": rounds, "warm_up": _WARM_UP, "pause_s": _PAUSE_S, "variants": [asdict(v) for v in variants]}
    lab.write(order, json.dumps(words), user=user)
    argv = [str(program), str(order), str(result)]
    bound_s = 30 + (rounds + _WARM_UP) * len(variants) * (_PAUSE_S + _RUN_S)
    if job:
        _run_as_job(lab, argv, directory, user, job, bound_s)
    else:
        lab.run(argv, user=user, timeout_s=bound_s)
    return Taken(json.loads(result.read_text()))


def _run_as_job(
    lab: Cluster, argv: Sequence[str], directory: Path, user: str, options: Sequence[str], bound_s: float
) -> None:
    out = directory / "out"
    sbatch = ["sbatch", "--parsable", f"--output={out}", *options, *argv]
    job_id = lab.run(sbatch, user=user, cwd="/").stdout.strip()

    def ended() -> bool:
        states = lab.run(["squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T"], user=user, cwd="/").stdout.split()
        return states not in (["PENDING"], ["RUNNING"], ["COMPLETING"])

    wait_until(ended, f"the end of {' '.join(argv)}", bound_s, 0.5)
    if not (directory / "result").exists():
        raise LabError(f"{' '.join(argv)}: {out.read_text(errors='replace') if out.exists() else 'no output'}")
