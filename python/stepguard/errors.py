# SPDX-License-Identifier: Apache-2.0
"""The errors of stepguard, each with the exit status that the command ends with.

    StepguardError            1   anything below; never raised itself
    ├── UsageError            2   the command line is wrong
    ├── PlacementError        2   --auto-resume stands where it cannot work
    ├── ConfigError          78   the configuration file is unreadable or wrong (EX_CONFIG)
    ├── ProcessError         71   a program could not be started or did not end in time (EX_OSERR)
    └── SlurmError           69   Slurm did not do what it was asked to (EX_UNAVAILABLE)
        ├── SlurmRefused     69   slurmctld answered no; the message is Slurm's own
        └── SlurmUnreachable 69   slurmctld did not answer, or the client command is missing

An expected outcome (a verdict, a strategy that does not apply) is a value, never one of these.
"""

from __future__ import annotations

import os


class StepguardError(Exception):
    """A fault that a person should read about: what failed, on what, and what to do."""

    exit_status = 1

    def __init__(self, what: str, on: str = "", advice: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.on = on
        self.advice = advice

    def __str__(self) -> str:
        return ": ".join(part for part in (self.what, self.on, self.advice) if part)


def reason(error: OSError) -> str:
    """What the system says of a fault, with the file where it names one (it does not for a descriptor)."""
    said = error.strerror or str(error)
    return f"{said}: {os.fsdecode(error.filename)}" if isinstance(error.filename, (str, bytes)) else said


class UsageError(StepguardError):
    """The command line is wrong."""

    exit_status = 2


class PlacementError(StepguardError):
    """--auto-resume stands where it cannot work."""

    exit_status = 2


class ConfigError(StepguardError):
    """The configuration file is unreadable, or a key or value in it is wrong."""

    exit_status = 78


class ProcessError(StepguardError):
    """A program could not be started, or did not end within its time."""

    exit_status = 71


class SlurmError(StepguardError):
    """Slurm did not do what it was asked to."""

    exit_status = 69


class SlurmRefused(SlurmError):
    """slurmctld answered, and the answer was no."""


class SlurmUnreachable(SlurmError):
    """slurmctld did not answer, or the client command is missing."""
