# SPDX-License-Identifier: Apache-2.0
"""What a plugin costs the user who does not ask for it: instructions of srun and sbatch, which wall time cannot tell.

callgrind counts those of the client's process, not the kernel's and not slurmstepd's. srun forks a child, which only
waits for its parent's end: callgrind starts the child's profile with a copy of all that the parent had counted until
then, so to add it would count srun's start, and with it the loading of plugins, twice.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable

from bench.budgets import SBATCH_INSTRUCTIONS, SRUN_INSTRUCTIONS
from bench.figures import figure
from bench.site import PLUGSTACK, Site, compile_bare
from bench.table import Row
from lab import Cluster, LabError, wait_until

_COMMANDS = {
    "srun -N1 true": (["srun", "-N1", "true"], SRUN_INSTRUCTIONS),
    "sbatch --wrap true": (["sbatch", "-Q", "-o", "/dev/null", "--wrap", "true"], SBATCH_INSTRUCTIONS),
    "sbatch job.sh": (["sbatch", "-Q", "-o", "/dev/null", "job.sh"], SBATCH_INSTRUCTIONS),
}
_SCRIPT = "#!/bin/bash\n#SBATCH --exclusive\nmodule load python\nsrun --auto-resume=1 python3 train.py --epochs 90\n"
_EMPTY, _OURS = "empty plugstack", "stepguard"
_RUN_S = 120.0


def measure(site: Site) -> Iterable[Row]:
    """The rows of this part. Raises LabError when valgrind is missing or a run fails."""
    if shutil.which("valgrind") is None:
        raise LabError("not found: valgrind: apt-get install valgrind")
    with site.lab(1, plugstack="") as lab:
        bare = lab.shared / "bare.so"
        shutil.copy(compile_bare(), bare)
        lab.write(lab.shared / "job.sh", _SCRIPT)
        plugstacks = {_EMPTY: "", "empty again": "", _OURS: PLUGSTACK, "bare plugin": f"optional {bare}\n"}
        for command, (argv, budget) in _COMMANDS.items():
            counts: dict[str, list[float]] = {name: [] for name in plugstacks}
            for _ in range(site.rounds(5, 1)):
                for name, plugstack in plugstacks.items():
                    (lab.root("login") / "etc/slurm/plugstack.conf").write_text(plugstack)
                    counts[name].append(_instructions(lab, argv))
            base = figure(counts[_EMPTY])
            yield Row("client instructions", f"{command}: {_EMPTY}", "Ir", base)
            for name in list(plugstacks)[1:]:
                bound = budget if name == _OURS else None
                yield Row("client instructions", f"{command}: {name}", "Ir", figure(counts[name]), base, bound)


def _instructions(lab: Cluster, argv: list[str]) -> int:
    """Runs a command on the login host under callgrind; what its process, not a child of it, has executed."""
    directory = lab.shared / "callgrind"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o777)
    out = f"--callgrind-out-file={directory}/%p"
    lab.run(["valgrind", "--tool=callgrind", out, *argv], user="root", cwd=lab.shared, timeout_s=_RUN_S)
    # srun's child outlives it by a moment, and writes its profile then.
    wait_until(lambda: not any("callgrind" in line for line in lab.processes("login").values()), "end of valgrind", 30)
    return max(total(path.read_text()) for path in directory.iterdir())


def total(profile: str) -> int:
    """The instructions of a whole callgrind profile (Callgrind Format Specification, "totals:").

    Raises LabError when the text is none.
    """
    found = re.search(r"^totals: (\d+)$", profile, re.MULTILINE)
    if found is None:
        raise LabError("no totals: in a callgrind profile")
    return int(found[1])
