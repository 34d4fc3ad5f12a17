# SPDX-License-Identifier: Apache-2.0
"""Asks the agent of this node."""

from __future__ import annotations

import json
import os
import socket
import struct
from pathlib import Path
from typing import Any

from stepguard.records import wire

_TIMEOUT_S = 3.0
_ANSWER_MAX_BYTES = 16 << 20
_NOTHING = "it says nothing that an agent would"


def ask(path: Path, kind: str) -> dict[str, Any] | str:
    """What the agent at this socket answers to a question, or why there is no answer."""
    try:
        with socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(_TIMEOUT_S)
            channel.connect(str(path))
            _, uid, _ = struct.unpack("3i", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if uid not in (0, os.geteuid()):
                return f"uid {uid} listens there, and not root"
            channel.sendall(wire.encode({"kind": kind.encode()}))
            answer = b""
            while (piece := channel.recv(1 << 16)) and len(answer) < _ANSWER_MAX_BYTES:
                answer += piece
        document = json.loads(answer)
    except OSError as error:
        return str(error.strerror or error)
    except ValueError:
        return _NOTHING
    return document if isinstance(document, dict) else _NOTHING
