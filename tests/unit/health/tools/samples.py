# SPDX-License-Identifier: Apache-2.0
"""The samples of tools' output, and what is expected of each."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from stepguard.health.model import Judgement, Status
from stepguard.health.tools.kind import Kind
from stepguard.health.tools.kinds import KINDS

_FOLDER = Path(__file__).parents[3] / "data/health/tools"


class Sample(NamedTuple):
    """`name` is kind/file; `devices` how many are told; `not_ok` those with another status than ok."""

    name: str
    status: Status
    devices: int
    not_ok: dict[str, Status]

    @property
    def kind(self) -> Kind:
        return kind_of(self.name.split("/")[0])

    @property
    def text(self) -> str:
        return (_FOLDER / self.name).read_bytes().decode()


def kind_of(name: str) -> Kind:
    return next(kind for kind in KINDS if kind.name == name)


def text_of(name: str) -> str:
    return next(one for one in SAMPLES if one.name == name).text


def judgement(name: str, exit_status: int | None = 0) -> Judgement:
    """What is said of a sample."""
    sample = next(one for one in SAMPLES if one.name == name)
    return sample.kind.read(sample.text, exit_status)


def _read() -> list[Sample]:
    samples = []
    for line in (_FOLDER / "expected.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, status, devices, *others = line.split()
            pairs = (other.rsplit("=", 1) for other in others)
            not_ok = {device.replace("~", " "): Status(said) for device, said in pairs}
            samples.append(Sample(name, Status(status), int(devices), not_ok))
    return samples


SAMPLES = _read()
FILES = sorted(f"{path.parent.name}/{path.name}" for path in _FOLDER.glob("*/*"))
