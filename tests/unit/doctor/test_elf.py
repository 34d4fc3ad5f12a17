# SPDX-License-Identifier: Apache-2.0
"""A shared library is read as the dynamic linker would, and whatever is no library is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepguard.doctor.elf import Library, NotElf

PLUGIN = """
const unsigned int plugin_version = 0x160508;
const char plugin_name[] = "stepguard";
unsigned int in_bss;
static const char *path = "/opt/x/lib/stepguard/bridge.so";
extern int elsewhere(void);
const char *where(void) { return elsewhere() ? path : 0; }
"""


@pytest.fixture(scope="module")
def plugin(compile_library: Callable[..., Path]) -> bytes:
    return compile_library(PLUGIN, "-lm", "-Wl,--disable-new-dtags,-rpath,/a:/b").read_bytes()


def test_what_the_compiler_put_in_is_found(plugin: bytes) -> None:
    library = Library(plugin)
    assert int.from_bytes(library.symbol("plugin_version") or b"", sys.byteorder) == 0x160508
    assert library.symbol("plugin_name") == b"stepguard\0"
    assert library.symbol("no_such_symbol") is None
    assert library.symbol("elsewhere") is None, "it is only asked for, not there"
    assert "libm.so.6" in library.needed()
    assert library.search_path() == ["/a", "/b"]
    assert library.constant_before("/lib/stepguard/bridge.so") == "/opt/x"
    assert library.constant_before("/lib/stepguard/bridge") is None
    assert library.machine == Library.read(Path("/proc/self/exe")).machine


def test_runpath_counts_as_well(compile_library: Callable[..., Path]) -> None:
    path = compile_library("int x;", "-Wl,--enable-new-dtags,-rpath,/c")
    assert Library.read(path).search_path() == ["/c"]


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF\x01\x01" + bytes(64), b"\x7fELF\x02\x09"])
def test_what_is_no_library_is_refused(data: bytes) -> None:
    with pytest.raises(NotElf):
        Library(data)


@given(st.data())
def test_a_damaged_library_never_does_more_than_be_refused(plugin: bytes, data: st.DataObject) -> None:
    damaged = bytearray(plugin[: data.draw(st.integers(0, len(plugin)))])
    # The headers and the tables of sections, where offsets and sizes stand.
    places = st.integers(0, max(0, len(damaged) - 1)) | st.integers(
        max(0, len(damaged) - 2048), max(0, len(damaged) - 1)
    )
    for at in data.draw(st.lists(places, max_size=8)) if damaged else []:
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        library = Library(bytes(damaged))
        library.symbol("plugin_version")
        library.needed()
        library.search_path()
        library.constant_before("/lib/stepguard/bridge.so")
    except NotElf:
        pass
