# SPDX-License-Identifier: Apache-2.0
"""The plugin: can every user's srun, and slurmd, load it?"""

from __future__ import annotations

from pathlib import Path

from stepguard.doctor.elf import Library, NotElf
from stepguard.doctor.files import changeable, unreadable
from stepguard.doctor.result import Result, fail, ok, unknown, warn

CHECK = "plugin"
PLUGIN = Path("lib/slurm/stepguard.so")
BRIDGE = Path("lib/stepguard/bridge.so")


def numbers(release: tuple[int, ...]) -> str:
    """A release as Slurm writes it: (22, 5, 8) is 22.05.8."""
    return ".".join(f"{number:02}" if place == 1 else str(number) for place, number in enumerate(release))


def built_for(library: Library) -> tuple[int, ...]:
    """The release of Slurm that a plugin was built for. Raises NotElf for what is no plugin of Slurm's."""
    value = library.symbol("plugin_version")
    if value is None or len(value) != 4:
        raise NotElf("no plugin of Slurm's (it exports no plugin_version)")
    number = int.from_bytes(value, "little" if library.machine.order == "<" else "big")
    return number >> 16, number >> 8 & 0xFF, number & 0xFF


def check_plugin(path: Path, release: tuple[int, ...] | None) -> list[Result]:
    """The plugin at `path`, for the Slurm of this `release` (None: not known here)."""
    prefix = path.parents[2] if path.parts[-3:] == PLUGIN.parts else None
    install = f"make install PREFIX={prefix or '…'}"
    try:
        library = Library.read(path)
        release_built_for = built_for(library)
    except FileNotFoundError:
        return [fail(CHECK, f"{path} is missing", f"run `{install}`; until then keep it out of plugstack.conf")]
    except (OSError, NotElf) as error:
        return [fail(CHECK, f"{path}: {error}", f"run `{install}`")]
    results = [*_machine(path, library), *_release(path, release_built_for, release, install)]
    if reason := unreadable(path):
        results.append(fail(CHECK, f"users cannot load it: {reason}", "chmod it: the file 0644, its folders 0755"))
    if reason := changeable(path):
        results.append(
            fail(CHECK, f"others can replace it: {reason}", "slurmd loads it as root: let it belong to root alone")
        )
    results += _bridge(path, library, install)
    if not results:
        shown = numbers(release_built_for[:2])
        results.append(
            ok(CHECK, f"{path}, built for Slurm {shown}")
            if release
            else unknown(
                CHECK, f"{path}, built for Slurm {shown}", "run this where srun works, to compare the releases"
            )
        )
    return results


def _machine(path: Path, library: Library) -> list[Result]:
    own = Library.read(Path("/proc/self/exe")).machine
    if library.machine == own:
        return []
    found = f"{path} was built for another processor (e_machine {library.machine.number}, here {own.number})"
    return [fail(CHECK, found, "build and install it on a host of this kind")]


def _release(path: Path, built: tuple[int, ...], release: tuple[int, ...] | None, install: str) -> list[Result]:
    """Since 21.08 Slurm refuses a plugin whose major.minor is not its own, whatever its line says."""
    if release is None or built[:2] == release[:2]:
        return []
    found = (
        f"{path} was built for Slurm {numbers(built)}, and srun here is {numbers(release)}: srun, sbatch and salloc "
        'print "Incompatible Slurm plugin" each time and do not know --auto-resume'
    )
    advice = f"with this Slurm's headers in place: `{install} SLURM_INCLUDE=/usr/include`; upgrade both together"
    return [fail(CHECK, found, advice)]


def _bridge(path: Path, library: Library, install: str) -> list[Result]:
    """The place of the bridge is compiled into the plugin."""
    prefix = library.constant_before(f"/{BRIDGE}")
    if prefix is None:
        return [warn(CHECK, f"{path} is not stepguard's plugin", "name stepguard's in plugstack.conf")]
    bridge = Path(prefix) / BRIDGE
    if bridge.exists():
        return []
    found = f"{path} was built for PREFIX={prefix}, and there is no {bridge}: guarded steps run unguarded"
    return [fail(CHECK, found, f"run `{install}`: an installation cannot be moved")]
