# SPDX-License-Identifier: Apache-2.0
"""What prepares a node itself: its own disks, its images, its kernel. Another node knows nothing of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from stepguard.scripts.options import CommandLine
from stepguard.scripts.programs import base
from stepguard.scripts.values import Array, Field, Value, flat, key_of

# Paths that are mostly a node's own: by the usual names of sites, and the variables for them.
LOCAL = re.compile(
    r"(?<![\w./}-])/(?:tmp|var/tmp|dev/shm|local\w*|scratch_?local|local_scratch|l?ssd\w*|nvme\w*|raid\w*|mnt/(?:nvme|local|ssd"
    r"|resource|scratch)\w*|opt/dlami/nvme|node_?local|lscratch|localscratch|scr)(?:/|\b)"
    r"|\$\{?(?:SLURM_)?TMP(?:DIR)?\b|\$\{?(?:SLURM_TMPDIR|LOCAL_?SCRATCH|LOCALDIR|JOB_SCRATCH|LOCAL_DIR|NODE_LOCAL\w*)\b"
)
_WRITES = re.compile(
    r"(?:^|[;&|({]|\b(?:then|do|sudo|exec|time|nice|timeout\s+\S+)\s)\s*(?:\S*/)?"
    r"(mkdir|cp|rsync|tar|unzip|dd|install|unsquashfs|zstd|pigz|gunzip|mv|ln|wget|curl|aws|s5cmd|gsutil|rclone|git|pip3?"
    r"|touch|sbcast|scp)\s"
)
_WRITING = frozenset(
    ("cp", "rsync", "tar", "unzip", "dd", "install", "unsquashfs", "zstd", "pigz", "gunzip", "wget", "curl", "aws",
     "s5cmd", "gsutil", "rclone", "git", "scp", "sbcast")
)  # fmt: skip
_IMAGES = re.compile(
    r"(?:^|[;&|(]|\s)(?:sudo\s+)?(docker\s+(?:load|pull|build)|podman\s+(?:load|pull)|enroot\s+(?:import|create)"
    r"|modprobe|sysctl\s+-w|nvidia-smi\s+(?:-pm|-ac|-lgc|-c|-mig)\b|mount|swapoff|insmod|nvidia-persistenced"
    r"|nvidia-cuda-mps-control\s+-d)\b"
)
_REMOTE = frozenset(
    ("ssh", "rsh", "pdsh", "clush", "pssh", "parallel-ssh", "dsh", "scp", "pdcp", "parallel-scp", "pscp", "rsync")
)


def of_step(line: CommandLine, variables: Mapping[str, Value | Array]) -> str:
    """What a step prepares on its nodes; "" when it is no set-up."""
    text = _filled(_text(line.program), variables)
    if line.has("container-name") and line.has("container-image"):
        return "a container that is made by name"
    return _told(text)


def of_command(name: str, words: Sequence[Field], variables: Mapping[str, Value | Array]) -> str:
    """The same of a command outside of a step: on this host, or on others by ssh and its like."""
    if name == "sbcast":
        return "a file that sbcast copied to the nodes"
    text = _filled(_text(words), variables)
    if name in ("scp", "pdcp", "rsync", "parallel-scp", "pscp"):
        remote = [field for field in words if field.taints]
        if name == "pdcp" or any(":" in field.text for field in remote):
            return f"files that {name} copied to the nodes"
        return f"{name} to a local disk" if name == "rsync" and _local_target(words) else ""
    if name in _REMOTE:
        return _told(_filled(" ; ".join(key_of(field.pieces) for field in words), variables)) or _told(text)
    if name in _WRITING and _local_target(words):
        return f"{name} to a local disk"
    return ""


_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")


def _filled(text: str, variables: Mapping[str, Value | Array]) -> str:
    """The text of a script that is run later, with what the variables hold."""
    if "$" not in text:
        return text

    def held(found: re.Match[str]) -> str:
        value = variables.get(found[1])
        return found[0] if value is None else key_of(flat(value))

    return _VARIABLE.sub(held, text)


def _local_target(words: Sequence[Field]) -> bool:
    return any(LOCAL.search(_shown(field)) for field in words[-1:]) or any(
        words[index].text in ("-C", "-d", "-P", "-O", "-o", "--directory") and LOCAL.search(_shown(words[index + 1]))
        for index in range(len(words) - 1)
    )


def _told(text: str) -> str:
    image = _IMAGES.search(text)
    if image:
        return image[1]
    writes = _WRITES.search(text)
    return f"{writes[1]} on a node's own disk" if writes and LOCAL.search(text) else ""


def _text(fields: Sequence[Field]) -> str:
    texts = [_shown(field) for field in fields]
    if texts and base(texts[0]) == "env":
        texts = texts[1:]
    return " ".join(texts)


def _shown(field: Field) -> str:
    return key_of(field.pieces)
