# SPDX-License-Identifier: Apache-2.0
"""Probes that run a tool: nvidia-smi, DCGM, and those of stress, as scripts that say what the tools say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepguard.health import probing
from stepguard.health.model import Action, Finding, Report, Status
from stepguard.health.probes import dcgm, memory, nvidia_smi, program, stress
from stepguard.health.probes.settings import Settings
from stepguard.health.probes.table import PROBES
from stepguard.health.probing import probe
from unit.health.probes.trees import Tree, told

_OK, _WARN, _FAIL, _UNKNOWN = Status.OK, Status.WARN, Status.FAIL, Status.UNKNOWN
_SAMPLES = Path(__file__).parents[3] / "data/health/tools"

PutTool = Callable[[str, str], None]


def say(sample: str, status: int = 0) -> str:
    return f"cat {_SAMPLES / sample}; exit {status}"


# -- nvidia-smi -------------------------------------------------------------------------------------------------------


@pytest.fixture
def gpus(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """Two on the bus, and no NVML."""
    monkeypatch.setattr(nvidia_smi, "_NVML", "libnvidia-ml-that-is-not-there.so")
    for bus in ("1b", "43"):
        tree.put_pci(f"0000:{bus}:00.0", "0x10de", "0x2335")
    tree.put_pci("0000:05:00.0", "0x10de", "0x22a3", "0x068000")  # an NVSwitch
    return tree


def look(tree: Tree, deadline_s: float = 30.0) -> Report:
    return nvidia_smi.run(Settings(root=str(tree), deadline_s=deadline_s))


def test_well_gpus(gpus: Tree, tools: PutTool) -> None:
    tools("nvidia-smi", f"[ \"$*\" = '-q -x' ] && {say('nvidia-smi-xml/v13-healthy.xml')}")
    report = look(gpus)
    assert (report.status, report.reason, report.values) == (_OK, "2 GPUs, no finding", {"count": 2})


def test_findings_are_those_of_nvml(gpus: Tree, tools: PutTool) -> None:
    tools("nvidia-smi", say("nvidia-smi-xml/remap-failure.xml"))
    report = look(gpus)
    found = [one for one in told(report) if one[1] == "row-remap-failure"]
    assert [(what, status, action) for _, what, status, action in found] == [
        ("row-remap-failure", _FAIL, Action.REPLACE)
    ]
    assert all(device.startswith("0000:") for device, *_ in found)


@pytest.mark.parametrize(
    ("sample", "exit_status", "status"),
    [
        ("nvidia-smi/mismatch.txt", 18, _FAIL),
        ("nvidia-smi/no-driver.txt", 9, _FAIL),
        ("nvidia-smi/nvml-unknown-error.txt", 255, _FAIL),
        ("nvidia-smi/handle-lost.txt", 15, _FAIL),
        ("nvidia-smi/nvml-permissions.txt", 4, _UNKNOWN),
        ("nvidia-smi-xml/cut.xml", 0, _UNKNOWN),
        ("nvidia-smi-xml/entities.xml", 0, _UNKNOWN),
    ],
)
def test_what_it_says_in_place_of_readings(
    sample: str, exit_status: int, status: Status, gpus: Tree, tools: PutTool
) -> None:
    tools("nvidia-smi", say(sample, exit_status))
    report = look(gpus)
    assert (report.status, bool(report.reason)) == (status, True)
    assert all(one.status is not _OK for one in report.findings) and report.findings


def test_fewer_gpus_than_are_on_the_bus(gpus: Tree, tools: PutTool) -> None:
    gpus.put_pci("0000:9d:00.0", "0x10de", "0x2335")
    tools("nvidia-smi", say("nvidia-smi-xml/v13-healthy.xml"))
    assert told(look(gpus)) == [("", "gpu-count", _FAIL, Action.CHECK)]


@pytest.mark.parametrize(
    "script", ["exit 0", "echo no; exit 1", "head -c 100000 /dev/zero", "kill -9 $$", "exec cat /dev/zero"]
)
def test_what_is_not_known(script: str, gpus: Tree, tools: PutTool) -> None:
    tools("nvidia-smi", script)
    report = look(gpus)
    assert report.status is _UNKNOWN
    assert report.reason.isprintable()


def test_a_driver_that_hangs(gpus: Tree, tools: PutTool) -> None:
    tools("nvidia-smi", "exec sleep 1000")
    report = look(gpus, deadline_s=1.0)
    assert (report.status, report.reason) == (_UNKNOWN, "nvidia-smi gives no answer within 0.8 s: the driver hangs")


def test_neither_nvml_nor_nvidia_smi(gpus: Tree, tools: PutTool) -> None:
    assert told(look(gpus)) == [("", "driver", _UNKNOWN, Action.CHECK)]


def test_no_gpu(tree: Tree, tools: PutTool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia_smi, "_NVML", "libnvidia-ml-that-is-not-there.so")
    assert look(tree).reason == "no NVIDIA GPU here"
    assert probe("nvidia-smi", Settings(root=str(tree))).reason.startswith("no NVIDIA GPU here")


def test_no_child_is_started_where_the_loader_knows_nvml(gpus: Tree, tools: PutTool) -> None:
    tools("nvidia-smi", say("nvidia-smi/mismatch.txt", 18))
    assert probe("nvidia-smi", Settings(root=str(gpus), deadline_s=30.0)).status is _FAIL
    gpus.path("etc").mkdir()
    gpus.path("etc/ld.so.cache").write_bytes(b"glibc-ld.so.cache1.1\0\xff\x01\0libnvidia-ml.so.1\0/usr/lib/x\0")
    assert probe("nvidia-smi", Settings(root=str(gpus), deadline_s=30.0)).status is _OK


def test_where_nvml_loads_its_probe_looks(gpus: Tree, tools: PutTool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia_smi, "_NVML", "libc.so.6")
    tools("nvidia-smi", "exit 9")
    assert look(gpus).status is _OK


# -- DCGM -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sample", "exit_status", "status"),
    [
        ("dcgmi-health/healthy.json", 0, _OK),
        ("dcgmi-health/healthy.json", 1, _UNKNOWN),
        ("dcgmi-health/failure.json", 0, _FAIL),
        ("dcgmi-health/cut.json", 0, _UNKNOWN),
        ("dcgmi-health/odd.json", 0, _UNKNOWN),
        ("dcgmi-health/no-engine.txt", 255, _UNKNOWN),
        ("dcgmi-health/no-watches.txt", 255, _UNKNOWN),
    ],
)
def test_dcgm(sample: str, exit_status: int, status: Status, tools: PutTool) -> None:
    tools("dcgmi", f"[ \"$*\" = 'health -c -j' ] && {say(sample, exit_status)}")
    report = dcgm.run(Settings(deadline_s=30.0))
    assert report.status is status
    assert (report.findings == []) is (status is _OK)
    assert {one.what for one in report.findings} <= {"dcgm-health"}


def test_a_host_engine_that_hangs(tools: PutTool) -> None:
    tools("dcgmi", "exec sleep 1000")
    report = dcgm.run(Settings(deadline_s=1.0))
    assert report.status is _UNKNOWN
    assert report.reason.startswith("dcgmi gives no answer within 0.8 s")


@pytest.mark.parametrize("script", ["exit 0", "echo 'dcgmi: \033[1mnew words'; exit 3", "head -c 20000000 /dev/zero"])
def test_dcgm_that_says_something_else(script: str, tools: PutTool) -> None:
    tools("dcgmi", script)
    report = dcgm.run(Settings(deadline_s=30.0))
    assert report.status is _UNKNOWN
    assert report.reason.isprintable() and report.reason.startswith("dcgmi ended with")


def test_dcgm_is_not_installed(tools: PutTool) -> None:
    assert (dcgm.run(Settings()).status, dcgm.run(Settings()).reason) == (_OK, "DCGM is not installed")
    assert probe("dcgm").reason == "DCGM is not installed"


def test_dcgm_in_its_child(tools: PutTool) -> None:
    tools("dcgmi", say("dcgmi-health/failure.json"))
    assert probe("dcgm", Settings(deadline_s=30.0)).status is _FAIL


# -- stress -----------------------------------------------------------------------------------------------------------

_NCCL = "echo '# Out of bounds values : {wrong}'; echo '# Avg bus bandwidth    : 361.5'; exit {status}"


@pytest.fixture
def dev(tmp_path: Path) -> str:
    directory = tmp_path / "dev"
    directory.mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (directory / name).touch()
    return str(directory)


def strain(dev: str, **settings: Any) -> Report:
    return stress.run(Settings(**{"dev": dev, "deadline_s": 60.0, **settings}))


def test_all_that_is_installed_is_run(dev: str, tools: PutTool, tmp_path: Path) -> None:
    tools("stress-ng", f'echo "stress-ng $*" >>{tmp_path}/log')
    tools("dcgmi", f'echo "dcgmi $*" >>{tmp_path}/log; {say("dcgmi-diag/v4-healthy.json")}')
    tools("all_reduce_perf", f'echo "nccl $*" >>{tmp_path}/log; {_NCCL.format(wrong="0 OK", status=0)}')
    report = strain(dev, stress_s=7.0, diagnostic_level=3)
    assert (report.status, report.reason) == (_OK, "cpu, io, dcgm, nccl: no finding")
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0] == "stress-ng --cpu 0 --verify --timeout 7s"
    assert lines[1].startswith("stress-ng --hdd 2 --hdd-bytes 256m --temp-path /")
    assert lines[2:] == ["dcgmi diag -r 3 -j", "nccl -b 8M -e 256M -f 2 -g 2"]
    assert not Path(lines[1].split()[6]).exists()


@pytest.mark.parametrize(
    ("tool", "script", "what", "status"),
    [
        ("stress-ng", "echo 'cpu: mismatch' >&2; exit 2", "stress-cpu", _FAIL),
        ("stress-ng", "exit 4", "stress-cpu", _UNKNOWN),
        ("stress-ng", "kill -9 $$", "stress-cpu", _UNKNOWN),
        ("dcgmi", say("dcgmi-diag/v4-fail.json", 1), "stress-dcgm", _FAIL),
        ("dcgmi", say("dcgmi-diag/v4-error-inside-pass.json"), "stress-dcgm", _WARN),
        ("dcgmi", say("dcgmi-diag/unknown-root.json"), "stress-dcgm", _UNKNOWN),
        ("dcgmi", "exit 1", "stress-dcgm", _UNKNOWN),
        ("all_reduce_perf", _NCCL.format(wrong="12 FAILED", status=1), "stress-nccl", _FAIL),
        ("all_reduce_perf", _NCCL.format(wrong="0 OK", status=1), "stress-nccl", _UNKNOWN),
        ("all_reduce_perf", "echo 'Test NCCL failure common.cu'; exit 3", "stress-nccl", _UNKNOWN),
    ],
)
def test_what_stress_finds(tool: str, script: str, what: str, status: Status, dev: str, tools: PutTool) -> None:
    tools(tool, script)
    report = strain(dev)
    assert report.status is status
    assert report.findings[0].what == what
    assert all(one.action is Action.CHECK for one in report.findings)


def test_nothing_to_run(dev: str, tools: PutTool) -> None:
    report = strain(dev)
    assert told(report) == [("", "stress", _UNKNOWN, Action.CHECK)]
    assert report.values == dict.fromkeys(("cpu", "io", "dcgm", "nccl"), "not installed")


def test_stress_is_bounded_and_says_what_it_is_at(
    dev: str, tools: PutTool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "_PROGRESS_S", 0.2)
    tools("stress-ng", "exec sleep 1000")
    report = strain(dev, deadline_s=2.0)
    assert report.findings == [
        Finding(_UNKNOWN, "", "stress-cpu", Action.CHECK, "did not end within 1 s"),
        Finding(_UNKNOWN, "", "stress-io", Action.CHECK, "no time was left for it"),
    ]
    assert "cpu: 0 s of at most 1 s\n" in capfd.readouterr().err


def test_results_are_kept(dev: str, tools: PutTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([1000.0, 1090.0, 2000.0, 2000.0])
    monkeypatch.setattr(memory, "now_s", lambda: next(times))
    state = str(tmp_path / "state")
    tools("stress-ng", "exit 2")
    first = strain(dev, state=state, max_age_s=100.0)
    tools("stress-ng", "exit 0")
    again = strain(dev, state=state, max_age_s=100.0)
    assert (again.status, again.findings) == (_FAIL, first.findings)
    assert again.reason == f"{first.reason} (90 s ago)"
    assert again.values["age_s"] == 90
    assert strain(dev, state=state, max_age_s=100.0).status is _OK


def test_results_that_cannot_be_kept(dev: str, tools: PutTool, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    tools("stress-ng", "exit 0")
    assert [one.what for one in strain(dev, state=str(tmp_path / "file/x")).findings] == ["stress-results"]


def test_stress_in_its_child(dev: str, tools: PutTool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "_TOLD_S", 0.1)
    tools("stress-ng", "sleep 2")
    heard: list[str] = []
    report = probe("stress", Settings(dev=dev, deadline_s=60.0), heard.append)
    assert report.status is _OK
    assert "cpu: 0 s of at most 59 s" in heard or "io: 0 s of at most 57 s" in heard
    assert "stress" not in PROBES
