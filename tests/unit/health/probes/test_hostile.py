# SPDX-License-Identifier: Apache-2.0
"""Trees whose files are not what they should be: a report all the same, and never OK where what decides is lost."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from stepguard.health.model import Status
from stepguard.health.probes import amd, host, infiniband, neuron
from stepguard.health.probes.document import from_bytes, to_document
from stepguard.health.probes.settings import Settings
from unit.health.probes.trees import Tree

_JUNK = (
    b"",
    b"\0" * 100,
    b"\xff\xfe",
    b"-1",
    b"9" * 5000,
    b"1e9",
    b"(((",
    b"a:b:c\n" * 1000,
    b"\x1b[2J",
    b"18446744073709551616",
    b"N/A (no PMA)",
    b"x" * (1 << 21),
)


@pytest.fixture
def full(tree: Tree) -> Tree:
    """A node that has a little of all."""
    tree.put_port("mlx5_0/1")
    tree.put_port("rdmap0s29/1", vendor="0x1d0f")
    tree.put_pci("0000:00:1d.0", "0x1d0f", "0xefa1")
    tree.put_pci("0000:00:1e.0", "0x1d0f", "0x7164")
    tree.put_pci("0000:0c:00.0", "0x1002", "0x74a1", "0x120000")
    tree.put_neuron(0, cores=1)
    tree.put({"product_name": "trn1.2xlarge"}, "/sys/devices/virtual/dmi/id")
    tree.put({"current_clocksource": "tsc"}, "/sys/devices/system/clocksource/clocksource0")
    tree.put({"ce_count": 0, "ue_count": 0, "dimm0/dimm_ue_count": 0}, "/sys/devices/system/edac/mc/mc0")
    tree.put({"meminfo": "MemTotal: 100 kB\nMemAvailable: 90 kB", "self/mountinfo": "1 0 8:1 / / rw - x y z"}, "/proc")
    tree.put({"stat": "7 (a) D " + "0 " * 18 + "5 0", "status": "SigPnd:\t0000000000000100"}, "/proc/7")
    return tree


def _damage(place: Path, dice: random.Random) -> None:
    place.unlink()
    kind = dice.randrange(5)
    if kind == 0:
        place.write_bytes(dice.choice(_JUNK))
    elif kind == 1:
        os.mkfifo(place)
    elif kind == 2:
        place.mkdir()
    elif kind == 3:
        place.symlink_to(dice.choice([place.name, "/dev/zero", "..", "/nowhere"]))


def test_damaged_trees(full: Tree, tmp_path: Path) -> None:
    files = sorted(path for path in full.root.rglob("*") if path.is_file())
    contents = {path: path.read_bytes() for path in files}
    settings = Settings(root=str(full), state=str(tmp_path / "state"), filesystems=("/proc",), mounts=("/",))
    dice = random.Random(20261130)
    for _ in range(120):
        damaged = dice.sample(files, dice.choice([1, 1, 2, 5, 30]))
        for path in damaged:
            _damage(path, dice)
        for module in (amd, host, infiniband, neuron):
            report = module.run(settings)
            document = json.dumps(to_document(report)).encode()
            assert from_bytes(document).status is report.status
            assert len(document) < 1 << 20
            assert report.reason.isprintable()
            assert all((one.device + one.evidence).isprintable() for one in report.findings)
        for path in damaged:
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
            path.write_bytes(contents[path])


@pytest.mark.parametrize(
    "path",
    [
        "sys/devices/virtual/neuron_device/neuron0/stats/hardware/sram_ecc_uncorrected/total",
        "sys/class/infiniband/mlx5_0/ports/1/state",
    ],
)
@pytest.mark.parametrize("junk", _JUNK)
def test_what_decides_is_never_well_when_it_is_lost(path: str, junk: bytes, full: Tree) -> None:
    full.path(path).write_bytes(junk)
    reports = [module.run(Settings(root=str(full))) for module in (infiniband, neuron)]
    assert [report.status for report in reports].count(Status.OK) == 1
