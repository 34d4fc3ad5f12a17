# SPDX-License-Identifier: Apache-2.0
"""What srun said (recorded on 22.05.8) → what is broken."""

from __future__ import annotations

import pytest

from stepguard.doctor.option import judge_answer
from stepguard.doctor.result import Level
from stepguard.process import Completed

WELL = """\
stepguard: --auto-resume works inside an allocation only: srun --test-only --auto-resume=1 true: put this line into a \
script for sbatch, or call it under salloc
"""
NO_BRIDGE = """\
stepguard: this step runs without --auto-resume: cannot load the bridge: /opt/stepguard/lib/stepguard/bridge.so: \
cannot open shared object file: No such file or directory: see `/opt/stepguard/bin/stepguard doctor`
srun: Job 2 to start at 2026-11-29T14:59:45 using 1 processors on nodes n1 in partition main
"""
REFUSES = """\
stepguard: this step is not started, for it could not be guarded: no Python: /opt/stepguard/venv: see \
`/opt/stepguard/bin/stepguard doctor`
"""
WRONG_RELEASE = """\
srun: plugin_load_from_file: Incompatible Slurm plugin /opt/stepguard/lib/slurm/stepguard.so version (24.11.5)
srun: error: spank: /opt/stepguard/lib/slurm/stepguard.so: Incompatible plugin version
srun: unrecognized option '--auto-resume=1'
Try "srun --help" for more information
"""
REQUIRED = """\
srun: error: plugin_load_from_file: dlopen(/opt/nowhere/stepguard.so): /opt/nowhere/stepguard.so: cannot open shared \
object file: No such file or directory
srun: error: spank: /opt/nowhere/stepguard.so: Dlopen of plugin file failed
srun: error: spank: /etc/slurm/plugstack.conf:1: Failed to load plugin /opt/nowhere/stepguard.so. Aborting.
srun: error: Plug-in initialization failed
"""


@pytest.mark.parametrize(
    ("status", "stderr", "level", "found"),
    [
        (2, WELL, Level.OK, "it answers"),
        (0, NO_BRIDGE, Level.FAIL, "cannot load the bridge: /opt/stepguard/lib/stepguard/bridge.so"),
        (71, REFUSES, Level.FAIL, "no Python: /opt/stepguard/venv"),
        (255, WRONG_RELEASE, Level.FAIL, "the plugin is not loaded"),
        (1, REQUIRED, Level.FAIL, "Plug-in initialization failed"),
        (1, "", Level.FAIL, "status 1"),
        (2, "srun: something else\n", Level.FAIL, "something else"),
    ],
)
def test_what_srun_said_tells_what_is_broken(status: int, stderr: str, level: Level, found: str) -> None:
    result = judge_answer(Completed(("srun",), status, "", stderr))
    assert result.level is level
    assert found in result.found
    assert "stepguard doctor" not in result.found, "that is where the reader is"
