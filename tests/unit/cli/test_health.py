# SPDX-License-Identifier: Apache-2.0
"""`stepguard health explain` and `stepguard health catalogue`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

GONE = "[   12.345678] NVRM: Xid (PCI:0000:0f:00): 79, pid=4711, name=python, GPU has fallen off the bus.\n"
FORGED = "Jun  1 12:00:00 n1 root: NVRM: Xid (PCI:0000:0f:00): 48, forged\n"
APPLICATION = "[   12.345678] NVRM: Xid (PCI:0000:0f:00): 43, pid=4711, name=python, Ch 00000008\n"
QUIET = "[   11.345678] Linux version 6.8.0\n"


def run(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "stepguard", "health", *map(str, arguments)]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    return subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False, env=environment)


def test_json_has_exactly_what_was_promised(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    log.write_text(GONE + GONE + FORGED)
    result = run("explain", "--json", log)
    assert result.returncode == 2
    assert json.loads(result.stdout) == {
        "schema": 1,
        "catalogue": "",
        "files": [
            {
                "file": str(log),
                "kind": "kernel-log",
                "verdict": "fail",
                "events": [
                    {
                        "line": 1,
                        "source": "xid",
                        "code": 79,
                        "device": "0000:0f:00",
                        "class": "hardware-replace",
                        "action": "replace",
                        "count": 2,
                        "trusted": True,
                    },
                    {
                        "line": 3,
                        "source": "xid",
                        "code": 48,
                        "device": "0000:0f:00",
                        "class": "hardware-reset",
                        "action": "reset-gpu",
                        "count": 1,
                        "trusted": False,
                    },
                ],
                "devices": [],
            }
        ],
    }


@pytest.mark.parametrize(
    ("text", "status"), [(QUIET, 0), (QUIET + APPLICATION, 1), (GONE, 2), ("", 3), ("hello\n", 3), (FORGED, 3)]
)
def test_exit_status_is_that_of_a_nagios_plugin(text: str, status: int) -> None:
    assert run("explain", "-", stdin=text.encode()).returncode == status


def test_of_several_files_the_worst_decides(tmp_path: Path) -> None:
    for name, text in (("a", QUIET), ("b", APPLICATION), ("c", "hello")):
        (tmp_path / name).write_text(text)
    assert run("explain", tmp_path / "a", tmp_path / "b", tmp_path / "c").returncode == 1
    assert run("explain", tmp_path / "a", tmp_path / "c").returncode == 3


def test_a_page_says_what_it_means(tmp_path: Path) -> None:
    result = run("explain", "-", stdin=(GONE * 3 + FORGED).encode())
    assert result.stdout.decode().splitlines() == [
        "-: kernel-log: FAIL",
        "  line 1: xid 79 on 0000:0f:00, 3 times: hardware-replace, replace",
        "      The GPU does not answer on PCIe any more.",
        "  line 4: xid 48 on 0000:0f:00: hardware-reset, reset-gpu (not the kernel's own words: counts for nothing)",
        "      An ECC error that could not be corrected. XIDs 63, 64, 94, 95, 171 and 172 beside it tell more.",
    ]


def test_a_gpu_gone_without_a_number() -> None:
    result = run(
        "explain", "--json", "-", stdin=b"[   12.345678] NVRM: GPU 0000:0f:00.0: GPU has fallen off the bus.\n"
    )
    (event,) = json.loads(result.stdout)["files"][0]["events"]
    assert (event["source"], event["code"], event["class"]) == ("xid", None, "hardware-replace")


def test_what_cannot_be_read_is_said_and_the_rest_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(GONE)
    result = run("explain", "--json", tmp_path / "none", tmp_path, log)
    assert result.returncode == 2
    assert [file["kind"] for file in json.loads(result.stdout)["files"]] == ["unreadable", "unreadable", "kernel-log"]
    assert b"No such file or directory" in result.stderr
    assert b"Is a directory" in result.stderr


def test_the_exit_status_of_the_pasted_command() -> None:
    assert run("explain", "--exit-code", "1", "-", stdin=QUIET.encode()).returncode == 3
    assert run("explain", "--exit-code", "0", "-", stdin=QUIET.encode()).returncode == 0
    assert run("explain", "--exit-code", "many", "-").returncode == 2


def test_what_others_wrote_does_not_steer_the_terminal(tmp_path: Path) -> None:
    line = "[    1.000000] INFO: task a\x1b[2Jb\u202e:4711 blocked for more than 120 seconds.\n"
    result = run("explain", "-", stdin=line.encode())
    assert b"\x1b" not in result.stdout
    assert "\u202e" not in result.stdout.decode()
    assert b"a\\x1b[2Jb\\u202e" in result.stdout


def test_a_closed_standard_input_is_unreadable() -> None:
    command = f"exec {sys.executable} -m stepguard health explain - <&-"
    result = subprocess.run(["/bin/sh", "-c", command], capture_output=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (3, b"-: unreadable: UNKNOWN: cannot be read\n")
    assert result.stderr.startswith(b"stepguard: cannot read '-': Bad file descriptor")


def test_the_sites_catalogue_decides_as_it_does_for_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, config, log = tmp_path / "rows.toml", tmp_path / "stepguard.toml", tmp_path / "kern.log"
    rows.write_text('[xid.43]\nclass = "hardware-replace"\naction = "replace"\nmeaning = "Ours."\n')
    config.write_text(f'[health]\ncatalogue = "{rows}"\n')
    log.write_text(APPLICATION)
    monkeypatch.setenv("STEPGUARD_CONFIG", str(config))
    result = run("explain", log)
    assert result.returncode == 2
    assert result.stdout.decode().splitlines()[1:] == [
        "  line 1: xid 43 on 0000:0f:00: hardware-replace, replace",
        "      Ours.",
        f"by the site's catalogue, {rows}",
    ]
    assert json.loads(run("explain", "--json", log).stdout)["catalogue"] == str(rows)
    record = json.loads(run("catalogue", "--json", "43").stdout)
    assert (record["action"], record["origin"]) == ("replace", "the site's configuration")
    rows.unlink()
    result = run("explain", log)
    assert (result.returncode, "by the site's" in result.stdout.decode()) == (1, False)
    assert b"cannot read the site's catalogue" in result.stderr
    assert b"without the site's catalogue" in result.stderr


def test_a_file_without_a_name_is_shown_as_one() -> None:
    result = run("explain", "")
    assert (result.returncode, result.stdout) == (3, b"'': unreadable: UNKNOWN: cannot be read\n")


def test_no_file_is_a_usage_error() -> None:
    assert run("explain").returncode == 2


def test_a_code_of_the_catalogue() -> None:
    result = run("catalogue", "79")
    assert result.returncode == 0
    text = result.stdout.decode()
    assert "GPU_HAS_FALLEN_OFF_THE_BUS" in text
    assert "hardware-replace" in text
    assert "https://docs.nvidia.com/deploy/xid-errors/" in text
    assert "RESTART_BM" in text


@pytest.mark.parametrize(
    ("arguments", "source", "code"),
    [
        (["79"], "xid", 79),
        (["20034"], "sxid", 20034),
        (["120", "--source", "dcgm"], "dcgm", 120),
        (["120"], "xid", 120),
        (["DCGM_FR_FALLEN_OFF_BUS"], "dcgm", 120),
        (["gsp_error"], "xid", 120),
        (["lbug", "--source", "lustre"], "lustre", "lbug"),
        (["xid79"], "xid", 79),
        (["XID 79"], "xid", 79),
        ([" 79\n"], "xid", 79),
        (["Xid: 79", "--source", "xid"], "xid", 79),
        (["SXid 20034"], "sxid", 20034),
        (["gone"], "xid", "gone"),
        (["probe-failed", "--source", "xid"], "xid", "probe-failed"),
    ],
)
def test_a_code_as_json(arguments: list[str], source: str, code: int | str) -> None:
    result = run("catalogue", "--json", *arguments)
    assert result.returncode == 0
    record = json.loads(result.stdout)
    assert (record["schema"], record["source"], record["code"], record["known"]) == (1, source, code, True)
    assert {"version", "name", "meaning", "class", "action", "vendor", "repeats", "overridden_by", "origin"} <= set(
        record
    )


def test_repetition_as_json() -> None:
    record = json.loads(run("catalogue", "--json", "13").stdout)
    assert record["repeats"] == {"count": 5, "within_s": 86400.0, "class": "hardware-reset", "action": "reset-gpu"}


def test_an_unknown_code_and_a_bad_one() -> None:
    result = run("catalogue", "--json", "99999")
    assert result.returncode == 1
    assert json.loads(result.stdout)["known"] is False
    assert run("catalogue", "XID 79", "--source", "sxid").returncode == 2
    for word in ("nonsense", "", "0x4f", "1.5", "7" * 5000):
        result = run("catalogue", word)
        assert result.returncode == 2
        shown = word if len(word) < 60 else f"{'7' * 60}..."
        said = f"stepguard: no code of the catalogue {shown!r}: CODE: write a number, or a name that it has\n"
        assert result.stderr.decode() == said
    result = run("catalogue", "nonsense", "--source", "lustre")
    assert result.returncode == 2
    assert b"known: " in result.stderr
    result = run("catalogue", "79", "--source", "cpu")
    assert result.returncode == 2
    assert b"known: xid, sxid, dcgm" in result.stderr
