# SPDX-License-Identifier: Apache-2.0
"""`stepguard node replace|reboot|resume`: an administrator's word on nodes, exactly as healers read it.

Exit status: 0 done, or so already; 1 refused, or not confirmed; 2 the command line is wrong; 69 Slurm said no.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from stepguard import config
from stepguard.cli.output import tell
from stepguard.errors import SlurmRefused, StepguardError, UsageError
from stepguard.health.by_hand import OUT_OF_SERVICE, Change, Nothing, Refusal, Step, Verb, plan, shown_state
from stepguard.health.marking import HEARD_S
from stepguard.slurm import connect
from stepguard.slurm.hostlist import expand, fold
from stepguard.slurm.reasons import RESUMING

if TYPE_CHECKING:
    from stepguard.slurm.protocol import SlurmClient

Kind = TypeVar("Kind")
MAX_REASON = 200
# What slurmctld says to whoever may not change nodes (ESLURM_USER_ID_MISSING and ESLURM_ACCESS_DENIED, 22.05 to 26.05).
_NOT_ALLOWED = ("Invalid user id", "Access/permission denied")


@click.group("node", short_help="Mark nodes for replacement or a reboot; resume them.")
def command() -> None:
    """Mark nodes for replacement or a reboot, and put them back into service. For administrators of Slurm's."""


def _verb(verb: Verb, help_text: str, takes_reason: bool) -> None:
    def run(nodes: tuple[str, ...], yes: bool, force: bool, reason: str = "") -> int:
        return _carry_out(verb, nodes, yes, force, reason)

    made: Callable[..., int] = run
    if takes_reason:
        why = "Why, for people: becomes the node's comment, for the reason is the action alone."
        made = click.option("--reason", default="", metavar="TEXT", help=why)(made)
    made = click.option("--force", is_flag=True, help="Also where the reason, or comment, is not stepguard's.")(made)
    made = click.option("--yes", is_flag=True, help="Do not ask.")(made)
    made = click.argument("nodes", nargs=-1, required=True, metavar="NODE...")(made)
    command.command(verb, help=help_text)(made)


_verb("replace", "Set state FAIL and the reason Action:Replace, exactly. NODE may be a host list: n[1-3,7].", True)
_verb("reboot", "Set state FAIL and the reason Action:Reboot, exactly. NODE may be a host list: n[1-3,7].", True)
_verb("resume", "Put nodes that stepguard took out of service back into it. NODE may be a host list: n[1-3,7].", False)


def _carry_out(verb: Verb, expressions: Sequence[str], yes: bool, force: bool, text: str) -> int:
    names = _named(verb, expressions)
    text = _checked(text)
    settings = config.load()
    client, has_gates = connect(settings.slurm), settings.agent.gate
    steps = plan(verb, client.nodes(names), text, force, has_gates)
    for step in steps:
        if isinstance(step, Refusal):
            tell(step.why, step.node)
        else:
            _say(f"{step.node}: {step.told if isinstance(step, Change) else step.why}")
    refused = [step.node for step in steps if isinstance(step, Refusal)]
    if refused:
        raise StepguardError("nothing was done", fold(refused), "with --force it is, whoever set the reason")
    if all(isinstance(step, Nothing) for step in steps):
        return 0
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("nothing was done", "there is no terminal to ask on", "say --yes")
        if not click.confirm("Go on?"):
            tell("nothing was done")
            return 1
        if plan(verb, client.nodes(names), text, force, has_gates) != steps:
            raise StepguardError("nothing was done", fold(names), "their state has changed meanwhile; look again")
    _change(steps, client)
    return 0


def _named(verb: Verb, expressions: Sequence[str]) -> list[str]:
    try:
        names = list(dict.fromkeys(name for one in expressions for name in expand(one)))
    except StepguardError as error:
        raise UsageError(error.what, error.on, error.advice) from error
    if not names:
        raise UsageError("no node is named", f"node {verb}", "name at least one")
    return names


def _checked(text: str) -> str:
    """A comment is one line, and Slurm shows it among its own fields."""
    if not text.isprintable() or len(text) > MAX_REASON:
        raise UsageError(f"bad value {text[:MAX_REASON]!r}", "--reason", f"one line of at most {MAX_REASON} characters")
    return text.strip()


def _change(steps: Sequence[Step], client: SlurmClient) -> None:
    """Carries out the changes, those of one kind in one question, and shows what has become of them."""
    changes = [step for step in steps if isinstance(step, Change)]
    waiting = [((step.until_heard, step.comment), step.node) for step in changes if step.until_heard is not None]
    for (state, comment), names in _alike(waiting):
        _update(client, names, state, RESUMING, comment)
    if waiting:  # out of service they get no job to refuse
        time.sleep(HEARD_S)
    for kind, names in _alike(((step.state, step.reason, step.comment), step.node) for step in changes):
        _update(client, names, *kind)
        for node in client.nodes(names):
            # One that was drained is NOT_RESPONDING until it has answered slurmctld, which takes a second.
            is_back = kind[0] == "RESUME" and not node.states & OUT_OF_SERVICE
            _say(f"{node.name}: {'back in service' if is_back else f'now {shown_state(node)}'}")


def _alike(nodes: Iterable[tuple[Kind, str]]) -> list[tuple[Kind, list[str]]]:
    """The names of each kind."""
    kinds: dict[Kind, list[str]] = {}
    for kind, name in nodes:
        kinds.setdefault(kind, []).append(name)
    return list(kinds.items())


def _update(client: SlurmClient, names: Sequence[str], state: str, reason: str | None, comment: str | None) -> None:
    try:
        client.update_nodes(names, state, reason, comment)
    except SlurmRefused as error:
        if any(words in error.what for words in _NOT_ALLOWED):
            advice = "run this as root, or as an administrator of Slurm's (sacctmgr show user: Admin)"
            raise SlurmRefused("you may not change nodes", fold(names), advice) from error
        raise


def _say(text: str) -> None:
    from stepguard.report.screen import stdout_screen, write_lines

    write_lines([text], stdout_screen())
