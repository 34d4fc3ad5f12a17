# SPDX-License-Identifier: Apache-2.0
"""GPUs for the tests of health: the programs that a test starts load the lab's NVML."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.gpus import Gpus, build
from stepguard.health.probing import Probes
from unit.health.scripted import Scripted


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def make_gpus(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Gpus]:
    def make(count: int) -> Gpus:
        gpus = Gpus(tmp_path / "gpus", count, nvml_library)
        for name, value in gpus.environment.items():
            monkeypatch.setenv(name, value)
        return gpus

    return make


@pytest.fixture
def gpus(make_gpus: Callable[[int], Gpus]) -> Gpus:
    """Eight, all well."""
    return make_gpus(8)


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    return Scripted(tmp_path, monkeypatch)


@pytest.fixture
def probes() -> Iterator[Probes]:
    made = Probes()
    yield made
    made.close()
