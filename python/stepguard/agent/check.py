# SPDX-License-Identifier: Apache-2.0
"""`stepguard agent --check`: the configuration in effect, where each value is from, and what is wrong. Read-only."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from stepguard import named_file
from stepguard.agent import place, reading
from stepguard.agent.health.kernel_log import choice
from stepguard.config import MAX_BYTES, Config, Health
from stepguard.errors import ConfigError
from stepguard.health.catalogue import of_site
from stepguard.health.probes.table import configured
from stepguard.places import conflicts, parents_problem
from stepguard.records.spool import SpoolLayout

Resolver = Callable[[str], str]
# As they stand, which is what the agent looks at, and where links lead.
LINKS_TOO: tuple[Resolver, ...] = (os.path.normpath, os.path.realpath)
_READ_BY_C = ("socket", "spool", "deadline_ms", "gate", "repair_nodelist")
# spank/agent_settings.c: one line, of this many bytes at most, and a path that fits into struct agent_settings.
_PLAIN_VALUE = r"""("[^"\\]*"|'[^']*'|[0-9]+|true|false)\s*(#.*)?"""
_LINE_MAX_BYTES = 1023
_SPOOL_PATH_MAX = 255


def effective(config: Config) -> list[str]:
    """The configuration as TOML, a comment behind each key says where its value is from."""
    given = _document(config.path)
    lines = []
    for section in dataclasses.fields(config):
        values = getattr(config, section.name)
        if not dataclasses.is_dataclass(values):
            continue
        lines.append(f"[{section.name}]")
        for key in dataclasses.fields(values):
            is_given = key.name in dict(given.get(section.name, {}))
            value = json.dumps(getattr(values, key.name), ensure_ascii=False)
            lines.append(f"{key.name} = {value}  # {config.path if is_given else 'default'}{_told(key.name, values)}")
    return lines


def _told(key: str, section: object) -> str:
    """What is behind a value, where it does not say so itself."""
    if not isinstance(section, Health):
        return ""
    names = choice.names(section.kernel_log)
    if key == "kernel_log_trusted" and section.kernel_log_trusted and not any(map(choice.is_file, names)):
        return ": without effect, for no log file is read"
    if key != "kernel_log" or len(names) < 2:
        return ""
    problems = {name: choice.problem(name) for name in names}
    read = next((name for name in names if not problems[name]), "")
    before = choice.told({name: "" if name == read else why for name, why in problems.items()})
    return f": {read} here{f' ({before})' if before and read != names[0] else ''}" if read else ""


def local_problems(config: Config, resolved: Sequence[Resolver] = (os.path.normpath,)) -> list[str]:
    """What would keep the agent from its work, each with what to do; the archiver's part: archive.preparation.

    With LINKS_TOO it touches the archive's file system, which may hang.
    """
    apart = map(str, {str(error): error for by in resolved for error in conflicts(config, by)})
    health = _health(config.health)
    return [*_rights(), *apart, *_spool(config), *_socket(config), *_programs(), *health, *_words_for_c(config)]


def _document(path: Path | None) -> dict[str, dict[str, object]]:
    if path is None:
        return {}
    import tomllib

    return tomllib.loads(_text(path))


def _text(path: Path) -> str:
    return named_file.read(path, MAX_BYTES).decode()


def _rights() -> Iterator[str]:
    if os.geteuid() != 0:
        yield f"the agent must be root, not uid {os.geteuid()}"


def _spool(config: Config) -> Iterator[str]:
    layout = SpoolLayout(Path(config.agent.spool))
    if len(os.fsencode(layout.root)) > _SPOOL_PATH_MAX:
        yield f"{layout.root}: longer than the hooks take ({_SPOOL_PATH_MAX} bytes)"
    for directory in (layout.root, layout.notes, layout.jobs):
        yield from _directory(directory, 0o077)


def _socket(config: Config) -> Iterator[str]:
    path = Path(config.agent.socket)
    if len(os.fsencode(path)) > place.SOCKET_PATH_MAX:
        yield f"{path}: longer than a socket's path may be ({place.SOCKET_PATH_MAX} bytes)"
    yield from _directory(path.parent, 0o022)


def _directory(path: Path, forbidden: int) -> Iterator[str]:
    """One that is missing will be made."""
    try:
        if problem := parents_problem(path) or place.directory_problem(path, forbidden):
            yield f"{path}: {problem}"
    except FileNotFoundError:
        return
    except OSError as error:
        yield f"{path}: {error.strerror}"


def _programs() -> Iterator[str]:
    program = reading.program()
    if not os.access(program, os.X_OK):
        yield f"{program}: missing, so no output of jobs is kept: run make install"


def _health(config: Health) -> Iterator[str]:
    """Names of probes and the site's catalogue, without which the agent does not start; a kernel's log that is none."""
    try:
        configured(config)
    except ConfigError as error:
        yield str(error)
    try:
        of_site(config.catalogue)
    except ConfigError as error:
        yield str(error)
    problems = {name: choice.problem(name) for name in choice.names(config.kernel_log)}
    if problems and all(problems.values()):
        why = choice.told(problems)
        yield f'[health] kernel_log = {json.dumps(config.kernel_log)}: {why}; name another, or "" to leave it unread'


def _words_for_c(config: Config) -> Iterator[str]:
    """C reads some keys too, and only in their simplest form; it and the agent would not find one another."""
    if config.path is None:
        return
    section, plain = "", set()
    for line in _text(config.path).splitlines():
        if header := re.match(r"\s*\[([^]]*)\]", line):
            section = header[1].strip()
        elif len(os.fsencode(line)) > _LINE_MAX_BYTES:
            continue
        elif section == "agent" and (match := re.fullmatch(rf"\s*([a-z_]+)\s*=\s*{_PLAIN_VALUE}", line)):
            plain.add(match[1])
    for key in _document(config.path).get("agent", {}):
        if key in _READ_BY_C and key not in plain:
            yield f"{config.path}: [agent] {key}: write it as `{key} = value` on a line below [agent], for the hooks"
