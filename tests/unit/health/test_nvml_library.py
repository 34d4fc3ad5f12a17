# SPDX-License-Identifier: Apache-2.0
"""The lab's NVML against NVIDIA's own binding, pynvml: same structures, versions and numbers, every function it has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.gpus import DRIVER_NOT_LOADED, GPU_IS_LOST, NOT_SUPPORTED, UNKNOWN_ERROR, VERSION_MISMATCH, Gpus, uuid

# Prints what each call returns, by its name; structures as lists of their members.
_ASK = """
import ctypes, json, sys
import pynvml as n

def plain(value):
    if isinstance(value, ctypes.Array):
        return [plain(one) for one in value]
    if isinstance(value, ctypes._Pointer):
        return ctypes.cast(value, ctypes.c_void_p).value
    if isinstance(value, (ctypes.Structure, ctypes.Union)):
        return {name: plain(getattr(value, name)) for name, *_ in value._fields_}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return vars(value) if type(value).__name__ == "nvmlFriendlyObject" else value

told = {}
def tell(name, *arguments):
    words = [str(one) for one in arguments if isinstance(one, (int, str))]
    told[" ".join([name, *words])] = plain(getattr(n, name)(*arguments))

def fill(name, handle, structure):
    made = getattr(n, structure)()
    getattr(n, name)(handle, ctypes.byref(made))
    told[f"{name} {structure}"] = plain(made)

n.nvmlInit()
for name in ("nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion", "nvmlSystemGetCudaDriverVersion"):
    tell(name)
tell("nvmlDeviceGetCount")
tell("nvmlErrorString", 27)
handle = n.nvmlDeviceGetHandleByIndex(1)
told["same handle"] = plain(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(handle))) == plain(handle)
for name in SIMPLE:
    tell(name, handle)
for kind in (0, 1):
    tell("nvmlDeviceGetRetiredPages", handle, kind)
    for age in (0, 1):
        tell("nvmlDeviceGetTotalEccErrors", handle, kind, age)
        for place in (2, 7):
            tell("nvmlDeviceGetMemoryErrorCounter", handle, kind, age, place)
tell("nvmlDeviceGetTemperatureV", handle, 0)
for threshold in range(4):
    tell("nvmlDeviceGetTemperatureThreshold", handle, threshold)
tell("nvmlDeviceGetNvLinkState", handle, 17)
fill("nvmlDeviceGetSramEccErrorStatus", handle, "c_nvmlEccSramErrorStatus_v1_t")
fill("nvmlDeviceGetGpuFabricInfoV", handle, "c_nvmlGpuFabricInfo_v2_t")
fill("nvmlDeviceGetGpuFabricInfoV", handle, "c_nvmlGpuFabricInfo_v3_t")
told["fields"] = [[one.fieldId, one.scopeId, one.nvmlReturn, one.valueType, plain(one.value)]
                  for one in n.nvmlDeviceGetFieldValues(handle, [230, 193, 83, (161, 3), 4, 999])]
mig = n.nvmlDeviceGetMigDeviceHandleByIndex(n.nvmlDeviceGetHandleByIndex(0), 1)
for name in ("nvmlDeviceGetUUID", "nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId"):
    told[f"MIG {name}"] = getattr(n, name)(mig)
events = n.nvmlEventSetCreate()
n.nvmlDeviceRegisterEvents(handle, n.nvmlEventTypeXidCriticalError, events)
print("ready", flush=True)
sys.stdin.readline()
data = n.nvmlEventSetWait_v2(events, 10000)
told["event"] = [plain(data.device) == plain(handle), data.eventType, data.eventData]
n.nvmlEventSetFree(events)
n.nvmlShutdown()
told["called"] = sorted(n._nvmlGetFunctionPointer_cache)
print(json.dumps(told))
"""
# Calls without another argument → what the state below makes them return.
_SIMPLE: dict[str, Any] = {
    "nvmlDeviceGetName": "NVIDIA H200",
    "nvmlDeviceGetUUID": uuid(1),
    "nvmlDeviceGetSerial": "1654223000001",
    "nvmlDeviceGetVbiosVersion": "96.00.BC.00.02",
    "nvmlDeviceGetIndex": 1,
    "nvmlDeviceGetMinorNumber": 1,
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetEccMode": [1, 0],
    "nvmlDeviceGetRetiredPagesPendingStatus": 1,
    "nvmlDeviceGetRemappedRows": [21, 22, 1, 0],
    "nvmlDeviceGetRowRemapperHistogram": {"max": 31, "high": 32, "partial": 33, "low": 34, "none": 35},
    "nvmlDeviceGetRepairStatus": [1, 0],
    "nvmlDeviceGetUnrepairableMemoryFlag_v1": 1,
    "nvmlDeviceGetCurrentClocksEventReasons": 0x100000040,
    "nvmlDeviceGetMarginTemperature": -3,
    "nvmlDeviceGetPowerUsage": 41,
    "nvmlDeviceGetEnforcedPowerLimit": 42,
    "nvmlDeviceGetTotalEnergyConsumption": 1 << 40,
    "nvmlDeviceGetPcieReplayCounter": 51,
    "nvmlDeviceGetCurrPcieLinkWidth": 8,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetCurrPcieLinkGeneration": 4,
    "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    "nvmlDeviceGetMigMode": [0, 1],
    "nvmlDeviceGetMaxMigDeviceCount": 7,
    "nvmlDeviceGetSupportedEventTypes": 0xFF8F,
}
_STATE = {
    "ecc.pending": 0,
    "pages.pending": 1,
    "pages.corrected": 2,
    "pages.uncorrected": 0,
    "rows.corrected": 21,
    "rows.uncorrected": 22,
    "rows.pending": 1,
    "rows.histogram": "31 32 33 34 35",
    "repair.channel_pending": 1,
    "repair.unrepairable_memory": 1,
    "clocks.reasons": "0x100000040",
    "temperature.gpu": -7,
    "temperature.margin": -3,
    "temperature.shutdown": 95,
    "temperature.slowdown": 92,
    "temperature.memory_max": 94,
    "temperature.gpu_max": 88,
    "power.usage_mw": 41,
    "power.limit_mw": 42,
    "power.energy_mj": 1 << 40,
    "pcie.replays": 51,
    "pcie.width": 8,
    "pcie.generation": 4,
    "mig.pending": 1,
    "ecc.volatile.corrected": 61,
    "ecc.volatile.uncorrected": 62,
    "ecc.aggregate.corrected": 63,
    "ecc.aggregate.uncorrected": 1 << 33,
    "ecc.aggregate.uncorrected.sram": 64,
    "fabric.state": 3,
    "fabric.status": 15,
    "fabric.clique": 71,
    "fabric.health_mask": 0xABCDEF12,
    "fabric.summary": 2,
    "field.230": "4 u",
    "field.83": 1 << 41,
    "field.161.3": 81,
    "field.4": "0.5 d",
    "processes.compute": "4711:1073741824 12",
    "processes.graphics": "99:5",
}
_SRAM = {
    "aggregateUncParity": "sram.aggregate.parity",
    "aggregateUncSecDed": "sram.aggregate.secded",
    "aggregateCor": "sram.aggregate.corrected",
    "volatileUncParity": "sram.volatile.parity",
    "volatileUncSecDed": "sram.volatile.secded",
    "volatileCor": "sram.volatile.corrected",
    "aggregateUncBucketL2": "sram.buckets.l2",
    "aggregateUncBucketSm": "sram.buckets.sm",
    "aggregateUncBucketPcie": "sram.buckets.pcie",
    "aggregateUncBucketMcu": "sram.buckets.mcu",
    "aggregateUncBucketOther": "sram.buckets.other",
    "bThresholdExceeded": "sram.threshold_exceeded",
}
_PROCESSES = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3")


@pytest.fixture(scope="module")
def told(nvml_library: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What pynvml returns of every function, with an event while it waits."""
    gpus = Gpus(tmp_path_factory.mktemp("told"), 8, nvml_library)
    gpus.make_mig(0, 2)
    gpus.update({f"gpu1.{key}": value for key, value in _STATE.items()})
    gpus.update({f"gpu1.{key}": 100 + place for place, key in enumerate(_SRAM.values())})
    gpus.happens(1, data=13)  # before the set is made: not told
    names = [*_SIMPLE, *_PROCESSES, "nvmlDeviceGetPciInfo_v3"]
    argv = [sys.executable, "-c", _ASK.replace("SIMPLE", repr(names))]
    environment = {**os.environ, **gpus.environment}
    with subprocess.Popen(argv, env=environment, stdin=-1, stdout=-1, text=True) as asking:
        assert asking.stdin and asking.stdout
        assert asking.stdout.readline() == "ready\n"
        gpus.happens(0, data=48)  # another GPU's
        gpus.happens(1, data=79)
        asking.stdin.write("\n")
        asking.stdin.flush()
        answer: dict[str, Any] = json.loads(asking.stdout.readline())
    assert asking.returncode == 0
    return answer


def test_pynvml_reads_what_is_written(told: dict[str, Any]) -> None:
    assert {name: told[name] for name in _SIMPLE} == _SIMPLE
    assert told["nvmlSystemGetDriverVersion"] == "580.95.05"
    assert told["nvmlSystemGetNVMLVersion"] == "13.580.95.05"
    assert (told["nvmlSystemGetCudaDriverVersion"], told["nvmlDeviceGetCount"]) == (13000, 8)
    assert told["same handle"]
    pci = told["nvmlDeviceGetPciInfo_v3"]
    assert (pci["busId"], pci["busIdLegacy"]) == ("00000000:1F:00.0", "0000:1F:00.0")
    assert (pci["domain"], pci["bus"], pci["device"], pci["pciDeviceId"]) == (0, 0x1F, 0, 0x233510DE)
    assert [told[f"nvmlDeviceGetTotalEccErrors {kind} {age}"] for kind in (0, 1) for age in (0, 1)] == [
        61,
        63,
        62,
        1 << 33,
    ]
    assert told["nvmlDeviceGetMemoryErrorCounter 1 1 7"] == 64
    assert told["nvmlDeviceGetMemoryErrorCounter 1 1 2"] == 0
    assert (told["nvmlDeviceGetRetiredPages 0"], told["nvmlDeviceGetRetiredPages 1"]) == ([0x1000, 0x2000], [])
    assert told["nvmlDeviceGetTemperatureV 0"] == -7
    assert [told[f"nvmlDeviceGetTemperatureThreshold {number}"] for number in range(4)] == [95, 92, 94, 88]
    assert told["nvmlDeviceGetNvLinkState 17"] == 1
    sram = told["nvmlDeviceGetSramEccErrorStatus c_nvmlEccSramErrorStatus_v1_t"]
    assert [sram[name] for name in _SRAM] == [100 + place for place in range(len(_SRAM))]
    for version, summary in (("v2", {}), ("v3", {"healthSummary": 2})):
        fabric = told[f"nvmlDeviceGetGpuFabricInfoV c_nvmlGpuFabricInfo_{version}_t"]
        assert fabric["clusterUuid"] == [0x5C] * 16
        assert (fabric["state"], fabric["status"], fabric["cliqueId"]) == (3, 15, 71)
        assert fabric["healthMask"] == 0xABCDEF12
        assert summary.items() <= fabric.items()
    assert [[one["pid"], one["usedGpuMemory"]] for one in told[_PROCESSES[0]]] == [[4711, 1 << 30], [12, None]]
    assert [[one["pid"], one["usedGpuMemory"]] for one in told[_PROCESSES[1]]] == [[99, 5]]


def test_field_values_have_their_types(told: dict[str, Any]) -> None:
    fields = {(field, scope): rest for field, scope, *rest in told["fields"]}
    assert fields[230, 0][:2] == [0, 1] and fields[230, 0][2]["uiVal"] == 4
    assert fields[193, 0][:2] == [0, 5] and fields[193, 0][2]["siVal"] == -8
    assert fields[83, 0][:2] == [0, 3] and fields[83, 0][2]["ullVal"] == 1 << 41
    assert fields[161, 3][2]["ullVal"] == 81
    assert fields[4, 0][:2] == [0, 0] and fields[4, 0][2]["dVal"] == 0.5
    assert fields[999, 0][0] == NOT_SUPPORTED


def test_mig_devices_and_events(told: dict[str, Any]) -> None:
    assert told["MIG nvmlDeviceGetUUID"] == "MIG-00000000-0001-5b1d-8c5e-6f0a1d2e3c4b"
    assert (told["MIG nvmlDeviceGetGpuInstanceId"], told["MIG nvmlDeviceGetComputeInstanceId"]) == (8, 0)
    assert told["event"] == [True, 8, 79]


def test_every_function_of_the_library_is_called_here(told: dict[str, Any], nvml_library: Path) -> None:
    listed = subprocess.run(["nm", "-D", "--defined-only", nvml_library], capture_output=True, text=True, check=True)
    has = {line.split()[-1] for line in listed.stdout.splitlines() if line.split()[-1].startswith("nvml")}
    assert has == set(told["called"])


_FAIL = """
import json, pynvml as n
told = []
def tell(call, *arguments):
    try:
        call(*arguments)
        told.append(0)
    except n.NVMLError as error:
        told.append(error.value)
n.nvmlInit() if START else tell(n.nvmlInit)
"""


def _errors(start: bool, calls: str) -> list[int]:
    script = f"{_FAIL.replace('START', str(start))}\n{calls}\nprint(json.dumps(told))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    told: list[int] = json.loads(done.stdout)
    return told


def test_initialization_fails_as_asked(gpus: Gpus) -> None:
    for error in (DRIVER_NOT_LOADED, VERSION_MISMATCH, UNKNOWN_ERROR):
        gpus["driver.fails"] = error
        assert _errors(False, "") == [error]
    del gpus["driver.fails"]
    assert _errors(False, "n.nvmlShutdown(); tell(n.nvmlDeviceGetCount)") == [0, 1]


def test_one_call_one_field_or_one_gpu_fails(gpus: Gpus) -> None:
    gpus["gpu0.fails.nvmlDeviceGetPowerUsage"] = UNKNOWN_ERROR
    gpus["gpu0.field_fails.230"] = GPU_IS_LOST
    gpus.lose(2)
    del gpus["gpu1.power"]
    told = _errors(
        True,
        """
for place in (0, 1, 3):
    tell(n.nvmlDeviceGetPowerUsage, n.nvmlDeviceGetHandleByIndex(place))
tell(n.nvmlDeviceGetHandleByIndex, 2)
tell(n.nvmlDeviceGetHandleByIndex, 8)
told.append(n.nvmlDeviceGetFieldValues(n.nvmlDeviceGetHandleByIndex(0), [230])[0].nvmlReturn)
""",
    )
    assert told == [UNKNOWN_ERROR, NOT_SUPPORTED, 0, GPU_IS_LOST, 2, GPU_IS_LOST]


def test_a_gpu_vanishes_under_a_program(gpus: Gpus) -> None:
    script = _FAIL.replace("START", "True") + (
        "handle = n.nvmlDeviceGetHandleByIndex(3)\ntell(n.nvmlDeviceGetUUID, handle)\nprint('ready', flush=True)\n"
        "input()\ntell(n.nvmlDeviceGetUUID, handle)\ntold.append(n.nvmlDeviceGetCount())\nprint(json.dumps(told))"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1, text=True) as asking:
        assert asking.stdin and asking.stdout
        assert asking.stdout.readline() == "ready\n"
        gpus.vanish(3)
        asking.stdin.write("\n")
        asking.stdin.flush()
        assert json.loads(asking.stdout.readline()) == [0, GPU_IS_LOST, 7]
