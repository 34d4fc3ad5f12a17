# SPDX-License-Identifier: Apache-2.0
"""What slurmstepd tells the agent: scripts, environments, output files, steps. The plugin does, where it is loaded."""

from __future__ import annotations

from pathlib import Path

from stepguard import config as configuration
from stepguard.config import DEFAULT_PATH, Config
from stepguard.doctor.result import Result, ok, warn
from stepguard.errors import ConfigError

CHECK = "capture"


def check_capture(is_loaded: bool, config: Config) -> list[Result]:
    """`is_loaded`: plugstack.conf names the plugin. `config`: that of the plugin, and the agent."""
    if not is_loaded:
        found = "without the plugin in plugstack.conf, records have no script, no environment, no output and no steps"
        return [warn(CHECK, found, "see plugstack.conf")]
    if config.path not in (None, DEFAULT_PATH) and _of_hooks() != config.agent:
        found = f"[agent] of {config.path} is not that of {DEFAULT_PATH}, the only file that hooks read"
        return [warn(CHECK, found, f"write the same into {DEFAULT_PATH}")]
    repaired = ", and sets stale node lists right" if config.agent.repair_nodelist else ""
    return [ok(CHECK, f"slurmstepd tells the agent what runs, where its output goes, and how it ends{repaired}")]


def _of_hooks() -> configuration.Agent | None:
    """The section that hooks read; None where it cannot be read."""
    if not Path(DEFAULT_PATH).exists():
        return configuration.Agent()
    try:
        return configuration.load(DEFAULT_PATH).agent
    except ConfigError:
        return None
