# SPDX-License-Identifier: Apache-2.0
"""What C reads of stepguard.toml, and that it is nothing else than what Python reads there."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from shim import fuzz
from shim.compiling import compiled
from stepguard import config
from stepguard.errors import ConfigError

_DEFAULT = ["/run/stepguard/agent.sock", "/var/spool/stepguard", 500, False, False]


def settings(wire_host: Path, paths: list[Path]) -> list[list[object]]:
    """What C reads of each file."""
    done = subprocess.run([wire_host, "settings", *paths], capture_output=True, check=True, text=True)
    lines = done.stdout.split("\n")
    return [
        [socket, spool, int(deadline_ms), gate == "1", repair == "1"]
        for socket, spool, deadline_ms, gate, repair in zip(*(lines[i::5] for i in range(5)), strict=False)
    ]


def written(directory: Path, texts: list[str]) -> list[Path]:
    paths = [directory / f"{number}.toml" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text.encode())
    return paths


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ('[agent]\nsocket = "/s"', {0: "/s"}),
        ("[agent]\r\nsocket='/s'\r\nspool=\t'/a b#c\"' # why\r\n", {0: "/s", 1: '/a b#c"'}),
        ("  [ agent ] # it\n  deadline_ms = 1\n gate=true#\nrepair_nodelist = true", {2: 1, 3: True, 4: True}),
        ("gate = true\n[archive]\ngate = true\n[agent.x]\ngate = true", {}),
        ("[[agent]]\ngate = true\n['agent']\ngate = true\n[agents]\ngate = true", {}),
        ("[agent]\ngate = true\n[resume]\ngate = false", {3: True}),
        ('[agent]\nsocket = "s"\nspool = "/a\\u0062"\ndeadline_ms = 0\ngate = 1\nrepair_nodelist = "true"', {}),
        ("[agent]\nsocket = /s\nspool = '/a\ndeadline_ms = 1_000\ngate = True\nrepair_nodelist = true false", {}),
        ("[agent]\ndeadline_ms = 60000", {2: 60000}),
        ("[agent]\ndeadline_ms = 60001", {}),
        ("[agent]\ndeadline_ms = 99999999999999999999999\ngate = true", {3: True}),
        ("[agent]\ndeadline_ms = 9999999999\nsockets = '/s'\nspool '/s'\n= 3\ngate", {}),
        (f"[agent]\nsocket = '/{'s' * 107}'\nspool = '/{'s' * 255}'", {}),
        (f"[agent]\nsocket = '/{'s' * 106}'\nspool = '/{'s' * 254}'", {0: "/" + "s" * 106, 1: "/" + "s" * 254}),
        (f"[agent]\n{'#' * 5000}\ngate = true\nspool = '/s' #{'x' * 5000}", {3: True}),
    ],
)
def test_settings(wire_host: Path, tmp_path: Path, text: str, expected: dict[int, object]) -> None:
    wanted = [expected.get(place, default) for place, default in enumerate(_DEFAULT)]
    assert settings(wire_host, written(tmp_path, [text])) == [wanted]


def test_file_that_cannot_be_read(wire_host: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(b"[agent]\ngate = true\n" + b"#" * (1 << 20))
    paths = [tmp_path, tmp_path / "none", tmp_path / "fifo", tmp_path / "large", Path("/dev/zero")]
    assert settings(wire_host, paths) == [_DEFAULT] * 5


def test_c_reads_nothing_else_than_python(wire_host: Path, tmp_path: Path) -> None:
    """Of what is TOML and a configuration, C has the same value as Python or the default."""
    choose = random.Random(4)
    keys = ["socket", "spool", "deadline_ms", "gate", "repair_nodelist"]
    paths = ['"/s"', "'/a b'", '"/a\\tb"', "'/a\\tb'", '"/a#b" # c', "'/a\"b'", '"""/x"""']
    numbers, flags = ["70", "60000", "60001", "9" * 23, "1_0", "0x10", "+7", "007"], ["true", "false #", "True"]
    values = dict(zip(keys, [paths, paths, numbers, flags, flags], strict=True))
    heads = ["[agent]", "[ agent ]", '["agent"]', "[archive]\n[agent]#", "[archive]", "[agent]\n[archive]"]
    blanks = ["", " ", "\t"]
    texts = []
    for _ in range(600):
        lines = [f"{key}{choose.choice(blanks)}={choose.choice(blanks)}{choose.choice(values[key])}" for key in keys]
        texts.append("\n".join([choose.choice(heads), *choose.sample(lines, choose.randrange(1, 4))]))
    compared = 0
    for text, of_c in zip(texts, settings(wire_host, written(tmp_path, texts)), strict=True):
        try:
            agent = config.parse(text, tmp_path).agent
        except ConfigError:
            continue
        for key, value, default in zip(keys, of_c, _DEFAULT, strict=True):
            assert value in (getattr(agent, key), default), text
            compared += value != default
    assert compared > 100


def test_random_files(tmp_path: Path) -> None:
    fuzz.run(compiled(tmp_path, "fuzz_agent_settings"), 1, 10_000)
