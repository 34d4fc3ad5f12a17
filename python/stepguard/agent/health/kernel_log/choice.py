# SPDX-License-Identifier: Apache-2.0
"""Which sources a setting names: `[health] kernel_log`.

""                   none
"auto"               /dev/kmsg, and journald where that cannot be read
"journald"           journald
"/dev/kmsg"          that alone; so with any path below /dev, and any file that is called kmsg
"/var/log/kern.log"  a log file, as any other path
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from stepguard.agent.health.kernel_log import journald, kmsg, log_file
from stepguard.agent.health.kernel_log.source import Listener, Source
from stepguard.config import KERNEL_LOG_WORDS, Health
from stepguard.errors import reason

_AUTO, _JOURNALD = KERNEL_LOG_WORDS
_KMSG = "/dev/kmsg"


def names(setting: str) -> list[str]:
    """Of the sources, in the order in which they are tried."""
    return [] if not setting else [_KMSG, _JOURNALD] if setting == _AUTO else [setting]


def sources(config: Health, listener: Listener, cursor: Mapping[str, Any]) -> list[Source]:
    """Those that are tried, in this order. The cursor is the last one's that was read. Raises ValueError, TypeError and
    the like where it is none."""
    return [_source(name, config, listener, cursor) for name in names(config.kernel_log)]


def problem(name: str) -> str:
    """Why a source cannot be read here, as far as that can be told beforehand; "" where nothing tells."""
    try:
        if name == _JOURNALD:
            journald.try_it()
        elif _is_kmsg(name):
            kmsg.try_it(name)
        else:
            log_file.try_it(name)
    except OSError as error:
        return reason(error)
    return ""


def _is_kmsg(path: str) -> bool:
    return path.startswith("/dev/") or PurePath(path).name == "kmsg"


def _source(name: str, config: Health, listener: Listener, cursor: Mapping[str, Any]) -> Source:
    own = cursor if cursor.get("path", name) == name else {}
    if name == _JOURNALD:
        return journald.Journald(listener, own)
    if _is_kmsg(name):
        return kmsg.Kmsg(name, listener, own)
    return log_file.LogFile(name, listener, own, config.kernel_log_trusted)
