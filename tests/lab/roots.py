# SPDX-License-Identifier: Apache-2.0
"""Other Debian releases' root directories, made by debootstrap, and the product built inside of one.

Both use this machine's way to the Internet: the archive that its apt is set to, its resolver, certificates and pip
settings. Nothing is started or mounted that outlives the call, for all happens in namespaces of its own.
"""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path

from lab.errors import LabError
from lab.processes import run_here
from lab.releases import BUILD_PACKAGES, PACKAGES, ROOTS, SUITES, Release

_SCRIPT = Path(__file__).with_name("root.sh")
_REPOSITORY = Path(__file__).parents[2]
_BUILD = _REPOSITORY / "build"
PREFIX = "/opt/stepguard"
"""Where hosts show the product."""
_PRIVATE = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]


def make_root(name: str) -> Path:
    """Makes the root directory of that Slurm release ("24.11"), unless it is there. Takes minutes.

    Raises LabError when debootstrap or apt fails, or when the archive's Slurm is of another release by now.
    """
    root = ROOTS / name
    if root.exists():
        return root
    if name not in SUITES:
        raise LabError(f"no Debian release known for Slurm {name}, only for {', '.join(SUITES)}")
    new = ROOTS / f"{name}.new"
    shutil.rmtree(new, ignore_errors=True)
    ROOTS.mkdir(parents=True, exist_ok=True)
    run_here(
        [*_PRIVATE, str(_SCRIPT), "make", str(new), SUITES[name], _archive(), *PACKAGES, *BUILD_PACKAGES],
        env_add={"DEBIAN_FRONTEND": "noninteractive"},
    )
    made = Release.of(new)
    if made.number != Release.parse(name):
        raise LabError(f"Debian {SUITES[name]} has Slurm {made.version}, not {name}: correct releases.SUITES")
    return new.rename(root)


def product(release: str | None = None) -> Path:
    """The repository's product, built and installed for hosts of that release: a `prefix` for Cluster.

    `make install` runs as if for /opt/stepguard, where hosts show it: a Python venv cannot be moved.
    """
    root = Release.find(release).root
    stage = _BUILD / f"product-{root.name}".rstrip("-")
    stage.mkdir(parents=True, exist_ok=True)
    with (stage / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if root == Path("/"):
            run_here(["make", "-C", str(_REPOSITORY), "install", f"PREFIX={PREFIX}", f"DESTDIR={stage}"])
        else:
            _copy_source(root / "usr/src/stepguard")
            run_here([*_PRIVATE, str(_SCRIPT), "install", str(root), "/usr/src/stepguard", str(stage)])
    return stage / PREFIX.lstrip("/")


def _copy_source(target: Path) -> None:
    """Copies what belongs to the repository; what was built there before stays, so that little is built again."""
    names = run_here(["git", "-C", str(_REPOSITORY), "ls-files", "-coz", "--exclude-standard"]).stdout
    wanted = [name for name in names.split("\0") if name and (_REPOSITORY / name).is_file()]
    for path in target.iterdir() if target.exists() else []:
        if path.name != "build":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in wanted:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(_REPOSITORY / name, target / name)


def _archive() -> str:
    """The Debian archive that this machine's apt is set to."""
    sites = run_here(
        ["apt-get", "indextargets", "--format", "$(LABEL) $(SITE)", "Created-By: Packages"]
    ).stdout.splitlines()
    for site in sites:
        label, _, url = site.partition(" ")
        if label == "Debian":
            return url
    raise LabError("apt-get indextargets names no Debian archive: run apt-get update, or set /etc/apt/sources.list")
