# SPDX-License-Identifier: Apache-2.0
"""`stepguard agent [--check] [--config PATH]`: the daemon of a node, in the foreground.

Exit status: 0 after SIGTERM, 1 where it cannot run here (another agent, wrong permissions), 78 for a wrong
configuration; with --check, 78 when something is wrong. Without click, which would stay in memory.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path

from stepguard import config as configuration
from stepguard.cli.output import tell, tell_lines
from stepguard.config import Config
from stepguard.errors import ConfigError, StepguardError, UsageError

_SYNOPSIS = "write: stepguard agent [--check] [--config PATH]"
_HELP = """Usage: stepguard agent [--check] [--config PATH]

  Take in what hooks and slurmstepd tell of jobs on this node, and bring it to
  the archive. Runs in the foreground, as root, until SIGTERM.

  --check        print the configuration in effect and what is wrong with it
  --config PATH  in place of $STEPGUARD_CONFIG or /etc/stepguard/stepguard.toml
  -h, --help     this text
"""


def main(argv: Sequence[str]) -> int:
    """Runs the verb; the broad catch of the process. Returns the exit status."""
    try:
        words = _read(argv)
        if "--help" in words:
            from stepguard.report.screen import write

            write([_HELP.encode()])
            return 0
        config = configuration.load(Path(words["--config"]) if "--config" in words else None)
        return _check(config) if "--check" in words else _run(config)
    except StepguardError as error:
        tell(str(error))
        return error.exit_status
    except Exception:  # noqa: BLE001 - the process boundary; whoever keeps the agent running starts it again
        tell_lines(f"the agent ends by a fault of its own: {traceback.format_exc()}")
        return 1


def _read(argv: Sequence[str]) -> dict[str, str]:
    words: dict[str, str] = {}
    rest = list(argv)
    while rest:
        option, equals, value = rest.pop(0).partition("=")
        if option == "--config":
            words[option] = value if equals else (rest.pop(0) if rest else "")
            if not words[option]:
                raise UsageError("no path", "--config", _SYNOPSIS)
        elif option in ("--check", "--help", "-h") and not equals:
            words["--help" if option == "-h" else option] = ""
        else:
            raise UsageError(f"unexpected {option!r}", "agent", _SYNOPSIS)
    return words


def _run(config: Config) -> int:
    from stepguard.agent.daemon import Agent
    from stepguard.agent.log import Log

    return Agent(config, Log()).run()


def _check(config: Config) -> int:
    from stepguard.agent import check
    from stepguard.archive.preparation import directory_fault, prepare
    from stepguard.report.screen import stdout_screen, write_lines

    write_lines(check.effective(config), stdout_screen())
    _, faults = prepare(config.archive)
    found = [*check.local_problems(config, check.LINKS_TOO), *map(str, faults)]
    trouble, may_end = directory_fault(Path(config.archive.dir))
    for problem in [*found, *([trouble] if trouble and not may_end else [])]:
        tell(problem)
    if trouble and may_end:
        tell(f"warning: {trouble}")
    return ConfigError.exit_status if found or (trouble and not may_end) else 0
