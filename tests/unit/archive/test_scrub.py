# SPDX-License-Identifier: Apache-2.0
"""No text of a record keeps a secret, wherever the job put it; what is stepguard's own stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepguard.archive import record, spooled
from stepguard.archive.index_lines import entry_of, line_of
from stepguard.archive.local_cluster import Here
from stepguard.archive.record import Prepared
from stepguard.archive.redaction import Redactor, load_rules
from stepguard.records.manifest import Manifest, to_json
from unit.archive.spools import Told

REDACTOR = Redactor(b"k" * 32, load_rules(None, ()))
TOKEN = "ghp_" + "aB3dE6gH9j" * 4
PLAIN = "Sommer2026!"
SCRIPT = f"#!/bin/sh\nDB_PASSWORD='{PLAIN}'\nsrun train\n".encode()


def prepared(told: Told, spool: Path) -> tuple[Prepared, Manifest]:
    found = record.prepare(told.key, spooled.read(told.put(spool, complete=True)), REDACTOR, Here("here", "lab"))
    assert found.folded.manifest is not None
    return found, found.folded.manifest


@pytest.mark.parametrize("secret", [TOKEN, PLAIN], ids=["by its shape", "known from the script"])
def test_no_text_of_a_record_keeps_a_secret(tmp_path: Path, secret: str) -> None:
    facts = ("ACCOUNT", "PARTITION", "QOS", "RESERVATION", "CONSTRAINTS", "COMMENT", "USER", "GPUS")
    told = Told(nodes="n1").prolog(
        **{f"SLURM_JOB_{fact}": f"x {secret}" for fact in facts}, SLURM_JOB_WORK_DIR=f"/w/{secret}"
    )
    told.batch(SCRIPT, SLURM_JOB_NAME=f"n {secret}").output()
    told.step_start(0, "train", f"--out=/o/{secret}", step_node_list=f"n1,{secret}").step_end(0, (0, 0))
    told.say("finding", code="c", text=f"saw {secret}", variable=secret, step_id=0)
    told.raw("stdout", b"", source=f"/home/alice/out-{secret}.txt", why=f"no {secret}")
    told.raw("stderr", None, source=f"/home/alice/{secret}", what="absent", why=f"{secret} is gone")
    told.epilog()
    found, manifest = prepared(told, tmp_path)
    line = line_of(entry_of("2026/11/18/12.0", manifest, 1, 1)).decode()
    for text in (to_json(manifest), to_json(found.folded.node), line):
        assert secret not in text
        assert "[redacted:" in text
    assert manifest.files["stdout"].source.startswith("/home/alice/out-[redacted:")
    assert manifest.files["stdout"].source.endswith("].txt")
    assert manifest.name.startswith("n [redacted:")
    assert manifest.steps[1].argv[0] == "train"


def test_what_is_stepguards_own_stays(tmp_path: Path) -> None:
    told = Told(nodes="n1", boot_id="0b3dE6gH9-aB3d").prolog().batch(SCRIPT).output()
    told.raw("stdout", f"+ echo '{PLAIN}'\n".encode()).epilog()
    found, manifest = prepared(told, tmp_path)
    node = found.folded.node
    assert (manifest.cluster, manifest.job_id, manifest.lead_node, node.node) == ("lab", "12", "n1", "n1")
    assert (node.boot_id, manifest.kind, manifest.work_dir) == ("0b3dE6gH9-aB3d", "batch", "/home/alice")
    assert (manifest.user, manifest.partition, manifest.nodes) == ("alice", "gpu", ["n1"])
    stdout = manifest.files["stdout"]
    assert (stdout.name, stdout.what, stdout.redacted, len(stdout.sha256)) == ("stdout.zst", "regular", 1, 64)
