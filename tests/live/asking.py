# SPDX-License-Identifier: Apache-2.0
"""Asks Slurm through stepguard's client on a host of the lab, with the host's own Python."""

from __future__ import annotations

import base64
import pickle
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import stepguard
from lab.cluster import Cluster

_PYTHON = ["/usr/bin/python3", "-I", "-c"]

_PROGRAM = """
import base64, pickle, sys
sys.path.insert(0, sys.argv[2])
from stepguard.errors import StepguardError
form, timeout_s, calls = pickle.loads(base64.b64decode(sys.argv[1]))
if form == "pyslurm":
    from stepguard.slurm.pyslurm_form import PyslurmForm
    client = PyslurmForm(timeout_s)
else:
    from stepguard.slurm.commands import Commands
    client = Commands(timeout_s, form)
answers = []
for name, arguments in calls:
    try:
        answers.append(getattr(client, name)(*arguments))
    except StepguardError as error:
        answers.append(error)
print(base64.b64encode(pickle.dumps(answers, protocol=4)).decode())
"""


@dataclass
class Client:
    """Stands for a SlurmClient on a host: `client.job("71")` asks there and returns, or raises, what came of it."""

    lab: Cluster
    form: str
    user: str = "alice"
    host: str = "login"
    timeout_s: float = 30.0
    environment: Mapping[str, str] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self._ask(name, arguments)

    def _ask(self, name: str, arguments: tuple[Any, ...]) -> Any:
        question = base64.b64encode(pickle.dumps((self.form, self.timeout_s, [(name, arguments)]), protocol=4)).decode()
        argv = [*_PYTHON, _PROGRAM, question, str(self.lab.shared / "python")]
        done = self.lab.run(argv, host=self.host, user=self.user, env=self.environment)
        (answer,) = pickle.loads(base64.b64decode(done.stdout))
        if isinstance(answer, Exception):
            raise answer
        return answer


def has_pyslurm(lab: Cluster) -> bool:
    """Whether pyslurm imports on the lab's hosts."""
    return lab.run([*_PYTHON, "import pyslurm"], check=False).status == 0


def share_package(lab: Cluster) -> None:
    """Puts the package, which needs only the standard library to talk with Slurm, where all hosts see it."""
    source = Path(stepguard.__file__).parent
    shutil.copytree(source, lab.shared / "python" / "stepguard", ignore=shutil.ignore_patterns("__pycache__"))
