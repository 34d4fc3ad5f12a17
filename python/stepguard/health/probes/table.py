# SPDX-License-Identifier: Apache-2.0
"""All probes. Their modules are imported by the forkserver, for the children that run them, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepguard.errors import ConfigError
from stepguard.health.probes import pci

if TYPE_CHECKING:
    from stepguard.config import Health

ALL = "all"


class Entry(NamedTuple):
    """
    `deadline_s`  what a probe may take where nobody says how long
    `only_where`  it is run only where one of these is (here.is_here); empty: everywhere
    `nothing`     what is said where it is not run
    `not_where`   it is not run where one of these is
    `preloads`    what its module imports once it runs, and the forkserver before: nothing that loads a driver's library
    """

    module: str
    deadline_s: float
    only_where: tuple[str, ...] = ()
    nothing: str = ""
    not_where: tuple[str, ...] = ()
    preloads: tuple[str, ...] = ()


# Those that look every so often.
PROBES = {
    # Without persistence mode the driver starts each GPU anew when NVML opens it, which takes seconds a GPU.
    "nvml": Entry(
        "stepguard.health.probes.nvml",
        30.0,
        (f"pci:{pci.NVIDIA}", "library:libnvidia-ml.so.1", "device:nvidia0", "setting:gpus_expected"),
        "no NVIDIA GPU here",
        preloads=("pynvml",),
    ),
    "nvidia-smi": Entry(
        "stepguard.health.probes.nvidia_smi",
        40.0,
        (f"pci:{pci.NVIDIA}",),
        "no NVIDIA GPU here, or one that NVML can be asked for",
        not_where=("library:libnvidia-ml.so.1",),
    ),
    "dcgm": Entry("stepguard.health.probes.dcgm", 30.0, ("program:dcgmi",), "DCGM is not installed"),
    "amd": Entry("stepguard.health.probes.amd", 30.0, (f"pci:{pci.AMD}",), "no AMD GPU here"),
    "neuron": Entry(
        "stepguard.health.probes.neuron",
        20.0,
        ("/sys/devices/virtual/neuron_device", f"pci:{pci.AMAZON}"),
        "no Neuron device here",
    ),
    "infiniband": Entry(
        "stepguard.health.probes.infiniband",
        20.0,
        ("/sys/class/infiniband", f"pci:{pci.AMAZON}", "setting:ports"),
        "no InfiniBand device and no EFA here",
    ),
    "host": Entry("stepguard.health.probes.host", 20.0),
}
# Those that are run when somebody asks for them: they take all of the node, for a long time.
ON_DEMAND = {"stress": Entry("stepguard.health.probes.stress", 3600.0)}


def entry(name: str) -> Entry:
    """Raises KeyError when there is no such probe."""
    return ON_DEMAND[name] if name in ON_DEMAND else PROBES[name]


def configured(config: Health) -> tuple[str, ...]:
    """The probes that are to run. Raises ConfigError for one that there is not."""
    if ALL in config.probes:
        return tuple(PROBES)
    for name in config.probes:
        if name not in PROBES:
            raise ConfigError(f"no probe {name!r}", "[health] probes", f"there are: {ALL}, {', '.join(PROBES)}")
    return tuple(dict.fromkeys(config.probes))
