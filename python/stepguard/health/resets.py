# SPDX-License-Identifier: Apache-2.0
"""Which GPUs were reset without a reboot, by what NVML told of them at two looks. Pure: whoever calls says the time.

Two signs are sure enough:

- Rows that waited to be remapped do so no longer: "a reset will be required to actually remap the row" (NVML API
  reference, nvmlDeviceGetRemappedRows).
- Counters began anew on a GPU in persistence mode, while another one in persistence mode that nobody uses went on. NVML
  counts from when the driver started the GPU (energy: "since the driver was last reloaded"; volatile ECC errors: the
  "GPU initialization lifecycle" of NVIDIA's Driver Persistence). Without that mode it starts a GPU for whoever comes
  first, again and again. A driver that is loaded anew, and a persistence daemon that is started anew, do so to all GPUs
  that nobody uses: hence the other one. A node's only GPU, or all of them at once, tell nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

Values = Mapping[str, Any]

# What a driver counts from the start of a GPU on: part and name in nvml_reading's values.
_COUNTERS = (
    ("power", "energy_mj"),
    ("ecc", "volatile_corrected"),
    ("ecc", "volatile_uncorrected"),
    ("pcie", "replays"),
)


class Reset(NamedTuple):
    """`after_s`: the last time at which the GPU (its UUID) had not been reset yet; `why`: the sign."""

    gpu: str
    after_s: float
    why: str


@dataclass(frozen=True)
class _Seen:
    """A GPU at its last look. `at_s`: until then it has not been reset since, for it has not answered since."""

    at_s: float
    counters: dict[str, int]
    is_persistent: bool
    is_used: bool
    remap_pending: bool | None


class Resets:
    """`state` is what an earlier `state()` gave, in this boot or another one."""

    def __init__(self, state: Mapping[str, Any], boot_id: str) -> None:
        self._boot_id = boot_id
        self._seen: dict[str, _Seen] = {}
        if state.get("boot_id") == boot_id:
            self._seen = {str(gpu): _Seen(**seen) for gpu, seen in state["gpus"].items()}

    def state(self) -> dict[str, Any]:
        return {"boot_id": self._boot_id, "gpus": {gpu: asdict(seen) for gpu, seen in self._seen.items()}}

    def look(self, gpus: Mapping[str, Values], now_s: float) -> list[Reset]:
        """Takes in the GPUs that answered at one look, by UUID. Returns those that were reset since their last one."""
        now = {gpu: _seen(values, now_s) for gpu, values in gpus.items()}
        before = {gpu: self._seen[gpu] for gpu in now if gpu in self._seen}
        anew = {gpu: why for gpu, one in before.items() if (why := _began_anew(one, now[gpu]))}
        goes_on = any(gpu not in anew and _is_witness(one, now[gpu]) for gpu, one in before.items())
        found = []
        for gpu, one in before.items():
            is_persistent = one.is_persistent and now[gpu].is_persistent
            if one.remap_pending and now[gpu].remap_pending is False:
                found.append(Reset(gpu, one.at_s, "rows that waited for a reset are remapped"))
            elif gpu in anew and is_persistent and goes_on:
                found.append(Reset(gpu, one.at_s, anew[gpu]))
        # What made counters begin anew may have done so to one that does not answer: then nothing is known of it.
        silent = {} if anew else {gpu: one for gpu, one in self._seen.items() if gpu not in now}
        self._seen = {gpu: _Seen(**{**asdict(one), "at_s": now_s}) for gpu, one in silent.items()} | now
        return found


def _seen(values: Values, now_s: float) -> _Seen:
    pending = values["rows"]["pending"]
    return _Seen(
        at_s=now_s,
        counters={f"{part}.{name}": count for part, name in _COUNTERS if (count := values[part][name]) is not None},
        is_persistent=values["persistence"] == 1,
        is_used=values["processes"] != {},
        remap_pending=None if pending is None else bool(pending),
    )


def _began_anew(before: _Seen, now: _Seen) -> str:
    """Which counter went down, for people; "" where none did."""
    return next((f"{name} was {was}, is {now_is}" for name, was, now_is in _pairs(before, now) if now_is < was), "")


def _is_witness(before: _Seen, now: _Seen) -> bool:
    """Whether this GPU would have begun anew too, had it been the driver or its daemon."""
    both = (before, now)
    return all(one.is_persistent and not one.is_used for one in both) and any(_pairs(before, now))


def _pairs(before: _Seen, now: _Seen) -> Iterator[tuple[str, int, int]]:
    return ((name, was, now.counters[name]) for name, was in before.counters.items() if name in now.counters)
