# SPDX-License-Identifier: Apache-2.0
"""The job of the demonstration: what its user writes, submits and gets to see."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab import Cluster

USER = "alice"


@dataclass(frozen=True)
class Program:
    """A training: its file in this directory, the Python package that it needs, the batch script that runs it."""

    file: str
    package: str
    script: str


# MASTER_ADDR is set in the step, not above it: each attempt has nodes of its own.
NUMPY = Program(
    "train.py",
    "numpy",
    """\
#!/bin/bash
#SBATCH --job-name=spirals
#SBATCH --nodes=4                # three to train on, one to spare
#SBATCH --exclusive --gres=gpu:2
#SBATCH --time=30
#SBATCH --output=spirals.out --open-mode=append

srun --auto-resume=1 --nodes=3 --ntasks=3 --gres=gpu:2 bash -c '
    export MASTER_ADDR=$(/opt/stepguard/bin/stepguard nodes --first)
    exec /usr/bin/python3 train.py --checkpoint spirals.npz {options}'
""",
)

NUMPY_WITHOUT_GPUS = replace(NUMPY, script=NUMPY.script.replace(" --gres=gpu:2", ""))

TORCH = Program(
    "train_torch.py",
    "torch",
    """\
#!/bin/bash
#SBATCH --job-name=spirals
#SBATCH --nodes=3                # to train on, and none to spare
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive --gres=gpu:2
#SBATCH --time=30
#SBATCH --output=spirals.out --open-mode=append

srun --auto-resume=1 --gres=gpu:2 bash -c '
    export MASTER_ADDR=$(/opt/stepguard/bin/stepguard nodes --first) MASTER_PORT=29500
    export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS
    exec /usr/bin/python3 train_torch.py --checkpoints /tmp/spirals {options}'
""",
)


class Job:
    """One submitted job. Its output is read as it grows."""

    def __init__(self, lab: Cluster, program: Program, options: str) -> None:
        self._lab = lab
        self.program = program
        self.script = program.script.format(options=options)
        self._home = lab.home(USER)
        self._read_bytes = 0
        self.id = ""

    def submit(self) -> None:
        """Puts the files into the user's home and submits. Raises LabError when Slurm refuses."""
        self._lab.write(self.program.file, Path(__file__).with_name(self.program.file).read_text(), user=USER)
        self._lab.write("spirals.sh", self.script, user=USER)
        self.id = self._lab.run(["sbatch", "--parsable", "spirals.sh"], user=USER).stdout.strip()

    def new_lines(self) -> list[str]:
        """The whole lines that were added to the job's output since the last call."""
        try:
            with (self._home / "spirals.out").open("rb") as file:
                file.seek(self._read_bytes)
                added, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._read_bytes += len(added) + len(newline)
        return added.decode(errors="replace").split("\n") if newline else []

    def journal(self) -> list[dict[str, Any]]:
        """What stepguard wrote down about the job's guarded step."""
        paths = (self._home / ".local/state/stepguard").glob(f"*/{self.id}/resumes.jsonl")
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]
