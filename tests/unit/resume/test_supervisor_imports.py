# SPDX-License-Identifier: Apache-2.0
"""What a guarded step waits for before it begins."""

from __future__ import annotations

import subprocess
import sys


def test_what_a_recovery_needs_is_not_imported_before_the_step_begins() -> None:
    code = "import sys, stepguard.resume.supervisor, stepguard.resume.validation; print(*sys.modules)"
    imported = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    ).stdout.split()
    late = {"recovery", "evidence", "verdict", "replacement", "strategies", "lookout", "pulse", "watching", "ranks"}
    assert "stepguard.resume.attempt" in imported
    assert not late & {name.removeprefix("stepguard.resume.") for name in imported}
