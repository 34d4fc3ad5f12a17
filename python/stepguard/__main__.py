# SPDX-License-Identifier: Apache-2.0
"""The `stepguard` command.

`supervise` and `watch` run beside every guarded step, `agent` as long as its node is up, and `check-script` in editors
and hooks, so they are reached without click (20 ms of import, 5 MiB).
"""

from __future__ import annotations

import sys

from stepguard.cli.output import finish_stdout, guard_stdout


def main() -> int:
    """Runs one verb and returns the exit status. The broad catch is the verb's own, or stepguard.cli.group's."""
    guard_stdout()
    status = _run(sys.argv[1] if len(sys.argv) > 1 else "")
    finish_stdout()
    return status


def _run(verb: str) -> int:
    if verb == "supervise":
        from stepguard.cli.supervise import main as supervise

        return supervise(sys.argv[2:])
    if verb == "watch":
        from stepguard.cli.watch import main as watch

        return watch(sys.argv[2:])
    if verb == "agent":
        from stepguard.cli.agent import main as agent

        return agent(sys.argv[2:])
    if verb == "check-script":
        from stepguard.cli.check_files import main as check_files

        status = check_files(sys.argv[2:])
        if status is not None:
            return status
    from stepguard.cli.group import main as cli

    return cli()


if __name__ == "__main__":
    sys.exit(main())
