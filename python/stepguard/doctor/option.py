# SPDX-License-Identifier: Apache-2.0
"""How srun itself meets the option: plugstack.conf, plugin, bridge and Python in one go, as for a user.

srun --auto-resume=1 outside of any job is refused by stepguard with its own status; anything else says what is broken.
"""

from __future__ import annotations

from stepguard.doctor.result import Result, fail, ok
from stepguard.errors import PlacementError
from stepguard.process import Completed

CHECK = "srun --auto-resume"


def judge_answer(done: Completed) -> Result:
    """What the answer of `srun --test-only --auto-resume=1 true` means."""
    said = [line.removeprefix("stepguard: ") for line in done.stderr.splitlines() if line.startswith("stepguard: ")]
    if done.status == PlacementError.exit_status and said:
        return ok(CHECK, "srun loads the plugin, and it answers")
    if "unrecognized option" in done.stderr:
        return fail(CHECK, "srun does not know the option: the plugin is not loaded", "see plugin and plugstack.conf")
    if said:
        return fail(CHECK, said[0].partition(": see `")[0], "see plugin and python")
    last = (done.stderr.strip().splitlines() or [f"status {done.status}"])[-1]
    return fail(CHECK, f"srun did not come as far as the option: {last}", "run `srun --test-only true`")
