# SPDX-License-Identifier: Apache-2.0
"""Which sources a setting names: `[health] kernel_log`.

""                   none
"auto"               /dev/kmsg, and journald where that cannot be read
"journald"           journald
"/dev/kmsg"          that alone; so with any path below /dev, and any file that is called kmsg
"/var/log/kern.log"  a log file, as any other path
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from stepguard import named_file
from stepguard.agent.health.kernel_log import journald, kmsg, log_file
from stepguard.agent.health.kernel_log.source import Listener, Source
from stepguard.config import KERNEL_LOG_WORDS, Health
from stepguard.errors import reason

_AUTO, _JOURNALD = KERNEL_LOG_WORDS
_KMSG = "/dev/kmsg"
_END_BYTES = 1 << 16
_NO_LINES = "none of its last lines is one of a syslog daemon's"


def names(setting: str) -> list[str]:
    """Of the sources, in the order in which they are tried."""
    return [] if not setting else [_KMSG, _JOURNALD] if setting == _AUTO else [setting]


def sources(config: Health, listener: Listener, cursor: Mapping[str, Any]) -> list[Source]:
    """Those that are tried, in this order. The cursor is the last one's that was read. Raises ValueError, TypeError and
    the like where it is none."""
    return [_source(name, config, listener, cursor) for name in names(config.kernel_log)]


def is_file(name: str) -> bool:
    """Whether a source is a syslog daemon's file."""
    return name != _JOURNALD and not _is_kmsg(name)


def problem(name: str) -> str:
    """Why a source cannot be read here, as far as that can be told beforehand; "" where nothing tells."""
    try:
        if name == _JOURNALD:
            journald.try_it()
        elif _is_kmsg(name):
            kmsg.try_it(name)
        else:
            log_file.try_it(name)
            _try_lines(name)
    except OSError as error:
        return reason(error)
    return ""


def told(problems: Mapping[str, str]) -> str:
    """Why sources cannot be read, in one line; where there is but one, without its name."""
    return "; ".join(
        f"{name}: {why.removesuffix(f': {name}')}" if len(problems) > 1 else why
        for name, why in problems.items()
        if why
    )


def _try_lines(path: str) -> None:
    """Raises OSError where none of a file's last lines is a syslog daemon's."""
    from stepguard.agent.health.kernel_log.syslog import is_log  # patterns

    with named_file.opened(Path(path)) as descriptor:
        begin = max(0, os.fstat(descriptor).st_size - _END_BYTES)
        end = os.pread(descriptor, _END_BYTES, begin)
    if end and not is_log(end):
        raise OSError(_NO_LINES)


def _is_kmsg(path: str) -> bool:
    return path.startswith("/dev/") or PurePath(path).name == "kmsg"


def _source(name: str, config: Health, listener: Listener, cursor: Mapping[str, Any]) -> Source:
    own = cursor if cursor.get("path", name) == name else {}
    if name == _JOURNALD:
        return journald.Journald(listener, own)
    if _is_kmsg(name):
        return kmsg.Kmsg(name, listener, own)
    return log_file.LogFile(name, listener, own, config.kernel_log_trusted)
