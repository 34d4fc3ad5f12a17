# SPDX-License-Identifier: Apache-2.0
"""`python -m lab`, with tests/ on PYTHONPATH and as root: a lab for a person.

up      starts a lab, keeps it until interrupted, and takes the words of faults and repairs from standard input
exec    runs a program on one of its hosts, from another terminal
shell   the same with a login shell
root    makes another Debian release's root directory, for `up --release`
product builds and installs the repository's product for hosts, and prints where: a --prefix
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lab.cluster import Cluster
from lab.entry import execute
from lab.errors import LabError
from lab.releases import SUITES
from lab.roots import make_root, product

_WORDS = ("power_off", "power_on", "cut_link", "heal_link", "stop_controller", "start_controller", "node_states")


def main(arguments: list[str] | None = None) -> int:
    """Does what the command line says and returns the exit status: 1 when the lab could not, with the reason."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.do(options)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    return status


def _up(options: argparse.Namespace) -> int:
    settings = dict(line.split("=", 1) for line in options.conf)
    plugstack = options.plugstack.read_text() if options.plugstack else ""
    with Cluster(options.nodes, options.gpus, settings, plugstack, options.prefix, options.release) as lab:
        print(
            f"Slurm {lab.release.version}: {', '.join(lab.nodes)} are idle. Shared directory: {lab.shared}", flush=True
        )
        print(
            f"Enter with: python -m lab shell --lab {lab.shared.parent}   (--host ctl|login|n1, --user root|bob)",
            flush=True,
        )
        print(
            f"Words: {', '.join(_WORDS)}, with a node's name where one is needed. Ctrl-C or Ctrl-D ends the lab.",
            flush=True,
        )
        try:
            for line in sys.stdin:
                _obey(lab, line.split())
        except KeyboardInterrupt:
            pass
    return 0


def _obey(lab: Cluster, words: list[str]) -> None:
    if not words:
        return
    if words[0] not in _WORDS:
        print(f"not one of {', '.join(_WORDS)}: {words[0]}", flush=True)
        return
    try:
        said = getattr(lab, words[0])(*words[1:])
    except (LabError, KeyError, TypeError) as error:
        said = f"no: {error}"
    if said is not None:
        print(said, flush=True)


def _exec(options: argparse.Namespace) -> int:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise LabError("exec what? python -m lab exec [--host HOST] [--user USER] COMMAND…")
    return execute(command, options.host, options.user, options.lab)


def _shell(options: argparse.Namespace) -> int:
    return execute(["bash", "--login"], options.host, options.user, options.lab)


def _root(options: argparse.Namespace) -> int:
    print(make_root(options.name))
    return 0


def _product(options: argparse.Namespace) -> int:
    print(product(options.release))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description="A Slurm cluster in namespaces.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    up = verbs.add_parser("up", help="start a lab and keep it until interrupted")
    up.add_argument("--nodes", type=int, default=4)
    up.add_argument("--gpus", type=int, default=0, help="GPUs of each node")
    up.add_argument("--prefix", type=Path, help="directory to show at /opt/stepguard")
    up.add_argument("--plugstack", type=Path, help="plugstack.conf of the lab")
    up.add_argument("--release", choices=SUITES, help="Slurm release; default: the machine's own")
    up.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="line of slurm.conf")
    up.set_defaults(do=_up)

    for name, function, what in (("exec", _exec, "run a program"), ("shell", _shell, "open a shell")):
        verb = verbs.add_parser(name, help=f"{what} on a host of a living lab")
        verb.add_argument("--lab", type=Path, help="its directory, when several live")
        verb.add_argument("--host", default="login")
        verb.add_argument("--user", default="alice")
        if name == "exec":
            verb.add_argument("command", nargs=argparse.REMAINDER)
        verb.set_defaults(do=function)

    root = verbs.add_parser("root", help="make another Debian release's root directory")
    root.add_argument("name", choices=SUITES)
    root.set_defaults(do=_root)

    build = verbs.add_parser("product", help="build and install the product for hosts")
    build.add_argument("--release", choices=SUITES)
    build.set_defaults(do=_product)
    return parser


if __name__ == "__main__":
    sys.exit(main())
