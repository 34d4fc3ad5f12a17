# SPDX-License-Identifier: Apache-2.0
"""The lab's H200 against a real GPU, where there is one: a stand-in unlike any GPU would prove nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.gpus import Gpus
from stepguard.health.probes.settings import Settings
from stepguard.health.probing import probe

_SETTINGS = Settings(deadline_s=60.0)
# What a node, its fabric or its use decide, and no kind of GPU does.
_OF_THE_NODE = ("fabric.", "mig.devices", "processes", "nvlink.states", "pcie.width", "pcie.generation")


def leaves(values: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Path and type of each value; of lists, that of their first entry."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield from leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(values, list):
        yield path, f"list of {type(values[0]).__name__}" if values else "list"
    else:
        yield path, "number" if isinstance(values, int | float) else type(values).__name__


def differences(real: Mapping[str, Any], model: Mapping[str, Any]) -> list[str]:
    """Values that one has and the other has not, or that are of another type."""
    one, other = dict(leaves(real)), dict(leaves(model))
    return [
        f"{path}: real {one.get(path, 'none')}, model {other.get(path, 'none')}"
        for path in sorted({*one, *other})
        if one.get(path) != other.get(path) and not path.startswith(_OF_THE_NODE)
    ]


def read() -> dict[str, Any]:
    """The GPUs that NVML tells of."""
    report = probe("nvml", _SETTINGS)
    found = report.values.get("gpus")
    assert isinstance(found, dict), report.reason
    return found


def test_what_differs_is_told(gpus: Gpus) -> None:
    """The comparison itself, on two of the lab's."""
    first, second = list(read().values())[:2]
    assert differences(first, second) == []
    del gpus["gpu1.rows"]
    gpus["gpu1.temperature.gpu"] = 40
    second = list(read().values())[1]
    told = differences(first, second)
    assert "rows.corrected: real number, model NoneType" in told or "rows: real none, model NoneType" in told, told
    assert not [one for one in told if one.startswith("temperature")], "another value is no difference"


@pytest.mark.skipif(not Path("/dev/nvidia0").exists(), reason="there is no NVIDIA GPU here")
def test_a_real_gpu_answers_as_the_labs_does(gpus: Gpus, monkeypatch: pytest.MonkeyPatch) -> None:
    model = next(iter(read().values()))
    for name in gpus.environment:
        monkeypatch.delenv(name)
    real = [one for one in read().values() if not one["mig"]["mode"]]
    assert real, "all GPUs are in MIG mode"
    told = differences(real[0], model)
    types_alone = [one for one in told if "NoneType" not in one]
    assert types_alone == [], "whatever GPU it is, what it answers is of the same types"
    if "H200" in str(real[0]["name"]):
        assert told == []
