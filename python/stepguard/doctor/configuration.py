# SPDX-License-Identifier: Apache-2.0
"""The administrator's configuration: valid, readable by users, and sensible together."""

from __future__ import annotations

import stat
from pathlib import Path

from stepguard.config import DEFAULT_PATH, Config, Resume
from stepguard.doctor.files import changeable, unreadable
from stepguard.doctor.result import Result, fail, ok, warn

CHECK = "configuration"


def check_configuration(config: Config) -> list[Result]:
    """A configuration that could be read."""
    results = _file(config.path) if config.path is not None else []
    results += _times(config.resume) + _fault_file(Path(config.resume.fault_file))
    shown = f"{config.path} is valid" if config.path else f"there is no {DEFAULT_PATH}: every key has its default"
    return results or [ok(CHECK, shown)]


def refused_configuration(error: str) -> Result:
    """A configuration that was refused with this message."""
    return fail(CHECK, f"{error}: guarded steps run unguarded", "correct it")


def _file(path: Path) -> list[Result]:
    results = []
    if reason := unreadable(path):
        results.append(
            fail(CHECK, f"users cannot read it, so that their guarded steps run unguarded: {reason}", "chmod 0644 it")
        )
    if reason := changeable(path):
        results.append(warn(CHECK, f"others can change it: {reason}", "let it belong to root alone"))
    return results


def _times(resume: Resume) -> list[Result]:
    results = []
    if resume.heartbeat_s >= resume.silence_s:
        found = f"[resume] heartbeat_s = {resume.heartbeat_s:g} is not below silence_s = {resume.silence_s:g}"
        results.append(warn(CHECK, f"{found}: healthy nodes count as silent", "set silence_s to three heartbeats"))
    if resume.probe_s > resume.silence_s:
        found = f"[resume] probe_s = {resume.probe_s:g} is above silence_s = {resume.silence_s:g}"
        results.append(warn(CHECK, f"{found}: lost nodes are noticed later", "lower probe_s"))
    if resume.max_resumes == 0 or not resume.strategies:
        found = "no step is ever resumed: [resume] max_resumes = 0 or strategies = []"
        results.append(warn(CHECK, found, "remove the key for its default"))
    return results


def _fault_file(path: Path) -> list[Result]:
    """Whoever can write it can end other users' steps on this node."""
    folder = next(place for place in path.parents if place.exists())
    # A sticky folder keeps others from replacing what is there, not from putting there what is missing.
    anybody = f"{folder} may be written by everybody" if folder.stat().st_mode & stat.S_IWOTH else ""
    if reason := anybody or changeable(folder):
        found = f"others can report faults of this node and so end guarded steps: {reason}"
        return [warn(CHECK, found, f"let {folder} belong to root alone")]
    return []
