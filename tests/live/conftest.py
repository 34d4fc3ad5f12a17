# SPDX-License-Identifier: Apache-2.0
"""What all live tests share. Most start a cluster of their own, which takes a second and a half.

STEPGUARD_LAB_RELEASE names another Slurm release for all of them ("24.11"), see lab.releases.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from lab import Cluster

_LIVE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all tests in this directory, and gives them time to build the product or the database's template."""
    for item in items:
        if _LIVE in item.path.parents:
            item.add_marker(pytest.mark.live)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(180))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Only root can make namespaces and mounts."""
    if item.get_closest_marker("live") and os.geteuid() != 0:
        pytest.skip("the lab needs root")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Shows with a failure what the daemons of the shared cluster logged."""
    try:
        yield
    except Exception as error:
        shared = getattr(item, "funcargs", {}).get("lab")
        if isinstance(shared, Cluster):
            shared.explain(error)
        raise


@pytest.fixture(scope="session")
def lab() -> Iterator[Cluster]:
    """A cluster of two nodes with two GPUs each and no plugin, for tests that leave it as they find it."""
    with Cluster(nodes=2, gpus_per_node=2) as cluster:
        yield cluster
