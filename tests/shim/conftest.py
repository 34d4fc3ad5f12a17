# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim import listeners
from shim.built import Shim, build
from shim.compiling import compiled
from shim.delivering import Place
from shim.recorder import Node


@pytest.fixture(scope="session", autouse=True)
def sigint_as_at_a_terminal() -> Iterator[None]:
    """Whatever starts the tests: a shell's background jobs ignore it, and so would all programs that they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", params=["plain", "sanitized"])
def shim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shim:
    """The plugin as it is installed, and once more under AddressSanitizer and UndefinedBehaviorSanitizer."""
    return build(tmp_path_factory.mktemp(request.param), request.param == "sanitized")


@pytest.fixture
def moved(shim: Shim) -> Iterator[Shim]:
    """The same, for a test that breaks something below the prefix: it is whole again afterwards."""
    kept = shim.prefix.with_name("kept")
    shutil.copytree(shim.prefix, kept, symlinks=True)
    yield shim
    shutil.rmtree(shim.prefix)
    kept.rename(shim.prefix)


@pytest.fixture
def node(shim: Shim) -> Iterator[Node]:
    """A node whose files any user can reach, which those of pytest's own directory are not."""
    with listeners.short_directory() as directory:
        yield Node(shim, directory)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job script with the option where it does not belong."""
    script = tmp_path / "job.sh"
    script.write_text(
        "#!/bin/bash\n#SBATCH -N 4\n# srun in a comment\n#SBATCH --auto-resume=1 -n4\n\n"
        "export A=1\nsrun -n4 ./train --epochs 90\nsrun ./after\n"
    )
    return script


@pytest.fixture(scope="session")
def wire_host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that speaks to an agent, under the sanitizers."""
    return compiled(tmp_path_factory.mktemp("wire"), "wire_host")


@pytest.fixture
def place(wire_host: Path) -> Iterator[Place]:
    with listeners.short_directory() as directory:
        yield Place(directory, wire_host)
