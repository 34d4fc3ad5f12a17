# SPDX-License-Identifier: Apache-2.0
"""Click's own errors in the form of ours: what failed: on what: what to do."""

from __future__ import annotations

from collections.abc import Sequence

import click

from stepguard.errors import StepguardError, UsageError


def is_help(error: click.ClickException) -> bool:
    """Whether it shows the help of a group that was given no verb (click 8.2 and later)."""
    return isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ()))


def in_our_form(error: click.ClickException, group: click.Group, words: Sequence[str]) -> StepguardError:
    """The same error, with the exit status that click gives it. `words` were given to the group."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path if context else _path(group, words)
    what, on, hint = _told(error)
    advice = f"{hint}see `{path} --help`"
    if isinstance(error, click.UsageError):
        return UsageError(what, on or path, advice)
    return StepguardError(what, on or path, advice)


def _path(group: click.Group, words: Sequence[str]) -> str:
    """The verb that the words name; click 8.1 does not say it of an option without its value."""
    path, command = "stepguard", group
    for word in words:
        found = command.get_command(click.Context(command), word)
        path += f" {word}" if found else ""
        if not isinstance(found, click.Group):
            break
        command = found
    return path


def _told(error: click.ClickException) -> tuple[str, str, str]:
    """What failed, on what, and what click would guess was meant."""
    if isinstance(error, click.NoSuchOption):
        meant = ", ".join(error.possibilities or ())
        return "no such option", error.option_name, f"{meant} was meant? " if meant else ""
    if isinstance(error, click.MissingParameter):
        kind = error.param.param_type_name if error.param else "parameter"
        return f"missing {kind}", _parameter(error), ""
    if isinstance(error, click.BadParameter):
        return _plain(error.message), _parameter(error), ""
    option = error.option_name if isinstance(error, click.BadOptionUsage) else ""
    return _plain(error.format_message()), option, ""


def _parameter(error: click.BadParameter) -> str:
    if error.param_hint is not None:
        hint = error.param_hint
        return hint if isinstance(hint, str) else " / ".join(hint)
    return error.param.get_error_hint(error.ctx).replace("'", "") if error.param and error.ctx else ""


def _plain(message: str) -> str:
    text = " ".join(message.split()).rstrip(".")
    return text[:1].lower() + text[1:]
