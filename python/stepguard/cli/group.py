# SPDX-License-Identifier: Apache-2.0
"""The verbs: one module each, imported only when it is given."""

from __future__ import annotations

import importlib
import sys

import click

from stepguard import __version__
from stepguard.cli.output import tell
from stepguard.errors import StepguardError

# verb → (module, one line of help). The module has a click command named `command`. Without help, it is not for people.
_VERBS = {
    "agent": ("stepguard.cli.agent", "Run the daemon that takes in the records of a node's jobs."),
    "archive": ("stepguard.cli.archive", "Prune, verify and export the archive of records."),
    "archiver": ("stepguard.cli.archiver", ""),
    "check-script": ("stepguard.cli.check_script", "Read job scripts: is --auto-resume where it works?"),
    "doctor": ("stepguard.cli.doctor", "Check this installation and say what to change."),
    "health": ("stepguard.cli.health", "What devices and the kernel say, and what is to be done."),
    "job": ("stepguard.cli.job", "The record of a job: what ran, where, when, how it ended."),
    "jobs": ("stepguard.cli.jobs", "The jobs that there are records of."),
    "node": ("stepguard.cli.node", "Mark nodes for replacement or a reboot; resume them."),
    "nodes": ("stepguard.cli.nodes", "The job's real nodes now."),
    "read-script": ("stepguard.cli.read_script", ""),
    "supervise": ("stepguard.cli.supervise", "Run a guarded step (what srun --auto-resume=1 becomes)."),
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(name for name, (_, text) in _VERBS.items() if text)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _VERBS:
            return None
        command = importlib.import_module(_VERBS[name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(_VERBS.items()) if text])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="stepguard %(version)s")
def group() -> None:
    """Keep Slurm training steps alive, and say why a job died."""


def main() -> int:
    """Runs one verb; the broad catch of the process. Returns the exit status."""
    try:
        status = group.main(standalone_mode=False, prog_name="stepguard")
    except StepguardError as error:
        return _told(error)
    except click.ClickException as error:
        from stepguard.cli.click_errors import in_our_form, is_help

        if is_help(error):
            error.show()
            return error.exit_code
        return _told(in_our_form(error, group, sys.argv[1:]))
    except click.Abort:
        return 130
    return status if isinstance(status, int) else 0


def _told(error: StepguardError) -> int:
    """Says it on stderr; the exit status."""
    tell(str(error))
    return error.exit_status
