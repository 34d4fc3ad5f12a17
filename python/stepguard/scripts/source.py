# SPDX-License-Identifier: Apache-2.0
"""A file that may be a job script: its bytes, its language, its lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

# What is read of a file; a longer one is read in part. slurmctld takes 4 MiB (max_script_size), most of it data then.
MAX_BYTES = 128 * 1024
_SHEBANG = re.compile(rb"#!\s*(\S+)(?:[ \t]+(\S+))?(?:[ \t]+(\S+))?")
BOM = b"\xef\xbb\xbf"
_COMMAND = re.compile(rb"(?m)^[ \t]*[^#\s]")
_OF_NO_INTEREST = re.compile(rb"(?m)^(?!#SBATCH[^\n]*--au)[^\n]+")
_KEEPS_LAST_STAGE = re.compile(rb"(?:^|[/.])(?:zsh|m?ksh|pdksh|ksh93)[\d.-]*$")
_SHELLS = re.compile(r"(?:r?ba|z|k|m?k|pdk|da|a)?sh(?:-?[\d.]+)?|ksh93|busybox")
_NAMES = {
    "py": "python", "sh": "shell", "bash": "shell", "sbatch": "shell", "slurm": "shell", "zsh": "shell", "ksh": "shell",
    "job": "shell", "sub": "shell", "batch": "shell", "slm": "shell", "sl": "shell", "srun": "shell",
    "csh": "other", "tcsh": "other", "pl": "other", "r": "other", "jl": "other", "lua": "other",
}  # fmt: skip
_DIRECTIVE = re.compile(rb"^#SBATCH\s", re.MULTILINE)
_FENCE = re.compile(rb"^(?:```|# .*\n\n[A-Z])", re.MULTILINE)
_SLURM_COMMAND = re.compile(
    rb"^\s*(?:exec |time )?(?:(?:srun|sbatch|salloc|mpirun|torchrun|scontrol|module|export)\b(?!\s*[:,.])|set -)",
    re.MULTILINE,
)
_IMPORT = re.compile(
    rb"^(?:import [\w.]+(?: as \w+)?(?:, [\w.]+(?: as \w+)?)*|from [\w.]+ import [\w(*, ]+)[ \t]*$", re.MULTILINE
)
# Words of sentences; and how lines begin that are none.
_SMALL_WORD = re.compile(
    rb"(?i)(?<![\w$/.-])(?:the|an?|of|to|and|is|are|was|were|that|with|this|it|we|you|not|be)(?![\w/=-])"
)
_WORD = re.compile(rb"[^\s]+")
_CODE_LINE = re.compile(
    rb"^[ \t]*(?:[A-Za-z_][\w\[\]]*\+?=|[\w-]+[ \t]*\(\)"
    rb"|(?:if|then|else|fi|for|while|until|do|done|case|esac|function|export|local|declare|readonly|source|set|cd|echo"
    rb"|printf|exec|eval|srun|sbatch|salloc|module|[.:{}()\[])(?=[\s;]|$)(?![^\n]*\.$))",
    re.MULTILINE,
)
_COMMENT_LINE = re.compile(rb"^[ \t]*#[^\n]*", re.MULTILINE)
_PROSE_BYTES = 4096
_MIN_SMALL_WORDS = 3
_WORDS_A_SMALL_ONE = 12


@dataclass(frozen=True)
class Source:
    """`data` without what editors add (a byte order mark, CR at the ends of lines); offsets are those in it.

    `language` is shell, python, other (read in part) or none (no script); `cut`: the end is missing.
    """

    name: str
    data: bytes
    language: str
    cut: bool

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer(rb"\n", self.data))]

    @property
    def keeps_last_stage(self) -> bool:
        """Whether its shell runs the last command of a pipeline itself, so that `… | read NAME` sets a variable."""
        found = _SHEBANG.match(self.data)
        words = found.groups(b"") if found is not None else (self.name.encode("utf-8", "replace"),)
        return any(_KEEPS_LAST_STAGE.search(word) for word in words)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, from 1; the column counts characters."""
        index = bisect_right(self._starts, offset) - 1
        start = self._starts[index]
        return index + 1, len(self.data[start:offset].decode("utf-8", "replace")) + 1

    def line(self, number: int) -> str:
        """A line's text, without its end."""
        start = self._starts[number - 1]
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.data)
        return self.data[start:end].decode("utf-8", "replace")


def source(name: str, data: bytes) -> Source:
    """What is known of a file by its bytes and its name."""
    cut = len(data) > MAX_BYTES
    if cut:
        has_nul = b"\0" in data
        data = _shortened(data)
        if has_nul:
            return Source(name, data, "none", cut)
    data = data.removeprefix(BOM).replace(b"\r\n", b"\n")
    language = _language(name, data)
    if language == "shell" and not _is_utf8(data):
        # The grammar knows UTF-8 alone. One byte for one, so that offsets stay.
        data = data.decode("latin-1").translate(_TO_ASCII).encode("latin-1")
    return Source(name, data, language, cut)


def _shortened(data: bytes) -> bytes:
    """The begin of a long file. Where it is all directives, those behind it that say --auto-resume, on their lines."""
    end = data.rfind(b"\n", 0, MAX_BYTES) + 1 or MAX_BYTES
    if _COMMAND.search(data, 0, end):
        return data[:end]
    command = _COMMAND.search(data, end)
    return data[:end] + _OF_NO_INTEREST.sub(b"", data[end : command.start() if command is not None else len(data)])


_TO_ASCII = dict.fromkeys(range(128, 256), "?")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _language(name: str, data: bytes) -> str:
    if b"\0" in data or not data.strip():
        return "none"
    if data.startswith(b"#!"):
        return _of_shebang(data)
    suffix = name.rpartition("/")[2].rpartition(".")
    known = _NAMES.get(suffix[2].lower(), "") if suffix[0] else ""
    if known:
        return "none" if known == "shell" and _is_prose(data) else known
    if not suffix[0] and _IMPORT.search(data):
        return "python"
    if not suffix[0] and (_DIRECTIVE.match(data) or _SLURM_COMMAND.search(data)) and not _FENCE.search(data):
        return "shell"
    return "none"


def _is_prose(data: bytes) -> bool:
    """Whether a text without a shebang consists of sentences."""
    text = _COMMENT_LINE.sub(b"", data[:_PROSE_BYTES])
    small = len(_SMALL_WORD.findall(text))
    words = len(_WORD.findall(text))
    return small >= _MIN_SMALL_WORDS and small * _WORDS_A_SMALL_ONE >= words and _CODE_LINE.search(text) is None


def _of_shebang(data: bytes) -> str:
    found = _SHEBANG.match(data)
    if found is None:
        return "other"
    words = [word.decode("utf-8", "replace").rpartition("/")[2] for word in found.groups() if word]
    program = next((word for word in words[1:] if not word.startswith("-")), "") if words[0] == "env" else words[0]
    if _SHELLS.fullmatch(program):
        return "shell"
    return "python" if program.startswith(("python", "pypy")) else "other"
