# SPDX-License-Identifier: Apache-2.0
"""The process that NVML tells of events: `python -I -m stepguard.health.gpu_events_child`, kept by the agent.

One JSON object a line on stdout:

    {"watching": 8}                                       once, when it has begun
    {"type": 8, "data": 79, "device": "0000:0f:00"}       an event: nvmlEventType…, for an XID its number
    {"absent": "Driver Not Loaded"}                       there is nothing to watch here; it ends

It ends with its stdin, so that none is left behind by an agent that was killed. Nothing is asked of a GPU when an
event comes: one that is lost does not answer.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from typing import Any

from stepguard.health.gpus import pci_address

# nvmlReturn_t
_NOT_SUPPORTED, _DRIVER_NOT_LOADED, _TIMEOUT, _LIBRARY_NOT_FOUND = 3, 9, 10, 12
# What changes in the ordinary course of things: single-bit errors, performance states, clocks, power sources.
_ORDINARY = 0x01 | 0x04 | 0x10 | 0x80
_WAIT_MS = 0x7FFFFFFF


def main() -> int:
    """Returns the exit status: 0 where there is nothing to watch, 1 where NVML fails."""
    import pynvml

    threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        pynvml.nvmlInit()
        events, addresses = _register(pynvml)
        if not addresses:
            _say(absent="no GPU here that tells of events")
            return 0
        _say(watching=len(addresses))
        while True:
            _wait(pynvml, events, addresses)
    except pynvml.NVMLError as error:
        if error.value in (_DRIVER_NOT_LOADED, _LIBRARY_NOT_FOUND):
            _say(absent=str(error))
            return 0
        print(f"stepguard: NVML tells of no events any more: {error}", file=sys.stderr)
        return 1


def _register(nvml: Any) -> tuple[Any, dict[int | None, str]]:
    """The event set, and the PCI address of each GPU in it by its handle. One that does not answer is left out."""
    events = nvml.nvmlEventSetCreate()
    addresses: dict[int | None, str] = {}
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            types = nvml.nvmlDeviceGetSupportedEventTypes(handle) & ~_ORDINARY
            bus_id = nvml.nvmlDeviceGetPciInfo(handle).busId
            if types:
                nvml.nvmlDeviceRegisterEvents(handle, types, events)
                addresses[_number(handle)] = pci_address(bus_id if isinstance(bus_id, str) else bus_id.decode())
        except nvml.NVMLError as error:
            if error.value != _NOT_SUPPORTED:
                print(f"stepguard: no events of GPU {index}: {error}", file=sys.stderr)
    return events, addresses


def _wait(nvml: Any, events: Any, addresses: dict[int | None, str]) -> None:
    try:
        event = nvml.nvmlEventSetWait_v2(events, _WAIT_MS)
    except nvml.NVMLError as error:
        if error.value == _TIMEOUT:
            return
        raise
    _say(type=event.eventType, data=event.eventData, device=addresses.get(_number(event.device), ""))


def _number(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _say(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def _end_with_stdin() -> None:
    while os.read(0, 1 << 12):
        continue
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
