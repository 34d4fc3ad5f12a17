# SPDX-License-Identifier: Apache-2.0
"""Where output goes is what Slurm makes of sbatch's pattern, for those that all releases understand in the same way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.cluster import Cluster
from stepguard.agent.output_pattern import Names, default, path

pytestmark = [pytest.mark.live, pytest.mark.timeout(150)]

_PATTERNS = [
    "%x.%j-%u-%N",
    "%12j",
    "%A_%a",
    "%t-%n-%3t",
    "s%s",
    "%5J",
    "%%j%%%j",
    "%z",
    "%4%j",
    "5",
    r"b\%j",
    "%05x",
    "",
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as cluster:
        yield cluster


@pytest.mark.parametrize("pattern", _PATTERNS)
@pytest.mark.parametrize("array", [False, True])
def test_slurm_writes_where_we_look(cluster: Cluster, pattern: str, array: bool) -> None:
    directory = cluster.run(["sh", "-c", "cd; mktemp -d $PWD/XXXXXX"]).stdout.strip()
    options = [f"--output={pattern}"] if pattern else []
    argv = ["sbatch", "--wait", "-J", "my job", "-D", directory, *options, *(["--array=13"] if array else [])]
    script = "echo $SLURM_JOB_ID $SLURM_ARRAY_JOB_ID"
    cluster.run([*argv, "--wrap", f"{script} >/dev/null; {script}"])
    (written,) = cluster.run(["find", directory, "-type", "f"]).stdout.splitlines()
    job_id, *array_job_id = cluster.run(["cat", written]).stdout.split()
    names = Names(
        int(job_id),
        array_job_id=int(array_job_id[0]) if array else None,
        array_task_id=13 if array else None,
        node="n1",
        user="alice",
        job_name="my job",
        work_dir=directory,
    )
    assert written == path(pattern or default(names), names)
