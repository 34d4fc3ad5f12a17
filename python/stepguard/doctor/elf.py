# SPDX-License-Identifier: Apache-2.0
"""Reads of a shared library what the dynamic linker would, without loading it (elf(5); 64 bit only, as Slurm is).

Loading a Slurm plugin outside of Slurm fails for the functions that it expects of its host, and would run whatever
constructors it has.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SHT_DYNAMIC, _SHT_DYNSYM = 6, 11
_DT_NULL, _DT_NEEDED, _DT_RPATH, _DT_RUNPATH = 0, 1, 15, 29
_PT_LOAD = 1
# Larger than any plugin of ours.
_MAX_SIZE_BYTES = 64 << 20


class NotElf(ValueError):
    """The bytes are no 64 bit ELF file, or a damaged one."""


@dataclass(frozen=True)
class Machine:
    """What a file was built for: byte order, and the e_machine number of the processor."""

    order: str
    number: int


class Library:
    """A shared library's bytes, and what they say."""

    def __init__(self, data: bytes) -> None:
        """Raises NotElf."""
        if data[:5] != b"\x7fELF\x02" or data[5:6] not in (b"\x01", b"\x02"):
            raise NotElf("not a 64 bit ELF file")
        self._data = data
        self._order = "<" if data[5] == 1 else ">"
        self.machine = Machine(self._order, self._unpack("H", 18)[0])

    @staticmethod
    def read(path: Path) -> Library:
        """The library in this file. Raises NotElf and OSError."""
        with path.open("rb") as file:
            return Library(file.read(_MAX_SIZE_BYTES))

    def symbol(self, name: str) -> bytes | None:
        """The value of an exported constant, as many bytes as it is long; None where there is none of this name."""
        wanted = name.encode()
        for kind, offset, size, link in self._sections():
            if kind != _SHT_DYNSYM:
                continue
            names = self._section(link)[1]
            for at in range(offset, offset + size, 24):
                name_at, _, _, section, value, length = self._unpack("IBBHQQ", at)
                if section and self._string(names + name_at) == wanted:
                    start = self._file_offset(value)
                    return self._slice(start, length)
        return None

    def needed(self) -> list[str]:
        """The libraries that it asks for (DT_NEEDED)."""
        return self._dynamic(_DT_NEEDED)

    def search_path(self) -> list[str]:
        """Where they are looked for first (DT_RPATH, DT_RUNPATH)."""
        paths = self._dynamic(_DT_RPATH) + self._dynamic(_DT_RUNPATH)
        return [entry for path in paths for entry in path.split(":") if entry]

    def constant_before(self, ending: str) -> str | None:
        """The beginning of the C string in its data that ends with `ending`; None where there is none."""
        at = self._data.find(ending.encode() + b"\0")
        return None if at < 0 else self._data[self._data.rfind(b"\0", 0, at) + 1 : at].decode(errors="replace")

    def _dynamic(self, tag: int) -> list[str]:
        found = []
        for kind, offset, size, link in self._sections():
            if kind != _SHT_DYNAMIC:
                continue
            names = self._section(link)[1]
            for at in range(offset, offset + size, 16):
                entry, value = self._unpack("QQ", at)
                if entry == _DT_NULL:
                    break
                if entry == tag:
                    found.append(self._string(names + value).decode(errors="replace"))
        return found

    def _sections(self) -> Iterator[tuple[int, int, int, int]]:
        """Type, offset, size and link of each section."""
        for index in range(self._unpack("H", 60)[0]):
            yield self._section(index)

    def _section(self, index: int) -> tuple[int, int, int, int]:
        table, entry_size = self._unpack("Q", 40)[0], self._unpack("H", 58)[0]
        _, kind, _, _, offset, size, link = self._unpack("IIQQQQI", table + index * entry_size)
        if offset + size > len(self._data) and kind in (_SHT_DYNAMIC, _SHT_DYNSYM):
            raise NotElf("cut short")
        return kind, offset, size, link

    def _file_offset(self, address: int) -> int:
        table = self._unpack("Q", 32)[0]
        entry_size, count = self._unpack("HH", 54)
        for index in range(count):
            kind, _, offset, start, _, size = self._unpack("IIQQQQ", table + index * entry_size)
            if kind == _PT_LOAD and start <= address < start + size:
                return int(offset + address - start)
        raise NotElf(f"nothing is loaded at address {address:#x}")

    def _string(self, at: int) -> bytes:
        end = self._data.find(b"\0", at)
        if end < 0:
            raise NotElf("a name without an end")
        return self._data[at:end]

    def _slice(self, start: int, length: int) -> bytes:
        if start + length > len(self._data):
            raise NotElf("cut short")
        return self._data[start : start + length]

    def _unpack(self, layout: str, at: int) -> tuple[int, ...]:
        try:
            return struct.unpack_from(self._order + layout, self._data, at)
        except (struct.error, OverflowError) as error:
            raise NotElf("cut short") from error
