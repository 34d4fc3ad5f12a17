# SPDX-License-Identifier: Apache-2.0
"""`stepguard supervise [--command-at K] -- srun ARGS…`: what `srun --auto-resume=1` becomes, and the way in where
no plugin may be loaded.

Exit status: srun's own; 1 where the supervisor ended the last attempt because of its hardware; 2 where the step
cannot be guarded and was not started. Any trouble of our own before the start runs the step unguarded and says so;
trouble of our own later leaves the running attempt alone.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepguard.cli.output import tell, tell_lines
from stepguard.errors import PlacementError, StepguardError, UsageError

if TYPE_CHECKING:
    from stepguard.resume.supervisor import Supervisor

# `srun --help` is asked only about options that no release of Slurm has: other plugins'.
_HELP_S = 10.0
_USAGE = "stepguard supervise [--command-at K] -- srun ARGS…"
_HELP = f"""Usage: {_USAGE}

  Run srun ARGS… as a guarded step: when a node or a GPU under it dies, it is
  started again on healthy nodes. The same as srun --auto-resume=1 ARGS….

  --command-at K  the program is word K of `srun ARGS…` (srun is word 0)
  -h, --help      this text
"""


def main(argv: Sequence[str]) -> int:
    """Runs the verb; the broad catch of the process. Returns the exit status."""
    _open_closed_channels()
    try:
        words, command_at = _read(argv)
    except UsageError as error:
        tell(str(error))
        return error.exit_status
    if not words:
        from stepguard.report.screen import write

        write([_HELP.encode()])
        return 0
    gc.disable()  # looking through what is being imported takes 2 ms and finds nothing
    try:
        supervisor = _prepare(words, command_at)
    except PlacementError as error:
        tell(str(error))
        return error.exit_status
    except StepguardError as error:
        return _unguarded(words, str(error))
    except Exception:  # noqa: BLE001 - the process boundary: a fault of ours must not cost the user the step
        return _unguarded(words, _traceback())
    gc.freeze()
    gc.enable()
    try:
        status = supervisor.run()
    except Exception:  # noqa: BLE001 - the process boundary, as above
        if not supervisor.started:
            return _unguarded(words, _traceback())
        tell_lines(f"this step is no longer guarded: {_traceback()}")
        status = supervisor.wait_unguarded()
    os._exit(status)  # nothing of ours waits to be written, and to tidy up would cost Python 6 ms of the user's time


def _open_closed_channels() -> None:
    """Whoever closed stdout (>&-) must not have srun write into a pipe of ours that got its number."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, this one


def _read(argv: Sequence[str]) -> tuple[list[str], int | None]:
    """The words of srun, and where its program stands among them. No words: help was asked for."""
    command_at = None
    rest = list(argv)
    while rest and rest[0] != "--":
        option = rest.pop(0)
        if option in ("-h", "--help"):
            return [], None
        name, equals, value = option.partition("=")
        if name != "--command-at":
            raise UsageError(f"unknown option {option!r}", "supervise", _USAGE)
        text = value if equals else (rest.pop(0) if rest else "")
        if not text.isdigit():
            raise UsageError(f"bad value {text!r}", "--command-at", "a number is needed")
        command_at = int(text)
    if len(rest) < 2:
        raise UsageError("no srun to run", "supervise", _USAGE)
    return rest[1:], command_at


def _prepare(words: list[str], command_at: int | None) -> Supervisor:
    from stepguard import config as configuration
    from stepguard.bridge import GUARD, GUARDED, judge_srun
    from stepguard.process import run
    from stepguard.slurm import connect
    from stepguard.slurm.srun_arguments import parse

    environment = dict(os.environ)
    command = parse(words, command_at, environment, lambda: run([words[0], "--help"], timeout_s=_HELP_S).stdout)
    # The plugin has judged already where it was; otherwise we do.
    decision, guard = judge_srun(words, command.command_at, 0, environment)
    if decision == GUARDED:
        environment[GUARD] = guard
    config = configuration.load()
    slurm = connect(config.slurm)
    with slurm.asked_job(command.job_id or environment.get("SLURM_JOB_ID", "")) as answer:
        # The rest is imported while Slurm answers.
        from stepguard.resume.messages import Messages
        from stepguard.resume.signals import SignalInbox
        from stepguard.resume.supervisor import Supervisor
        from stepguard.resume.validation import check_job

        job = answer()
    check_job(job, config.resume)
    return Supervisor(
        config=config,
        slurm=slurm,
        command=command,
        job=job,
        environment=environment,
        inbox=SignalInbox(),
        messages=Messages(job.id),
    )


def _traceback() -> str:
    import traceback  # 4 ms that only a fault of ours needs

    return traceback.format_exc()


def _unguarded(words: list[str], why: str) -> int:
    """Becomes the plain srun."""
    tell_lines(f"this step runs without --auto-resume: {why}")
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    try:
        os.execvp(words[0], words)
    except OSError as error:
        tell(f"cannot start: {words[0]}: {error.strerror}")
        return 127
