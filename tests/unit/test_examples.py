# SPDX-License-Identifier: Apache-2.0
"""The examples are true: every key, with its default, no parameter that Slurm does not have, and clean scripts."""

from __future__ import annotations

import re
import tomllib
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from stepguard.agent.check import local_problems
from stepguard.config import Agent, Archive, Config, Health, Resume, Slurm, parse
from stepguard.scripts.check import check_file

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "slurm-conf-examples"
# 24.11 and later show Prolog and Epilog only where there are any.
SHOWN = sorted((Path(__file__).parents[1] / "data/slurm").glob("*/show-config.txt"))
SLURM_CONF = sorted(path for path in EXAMPLES.glob("*.conf") if path.name != "plugstack.conf")


def test_the_configuration_example_has_every_key_with_its_default_in_order() -> None:
    path = EXAMPLES / "stepguard.toml"
    text = path.read_text()
    assert parse(text, path) == Config(path=path)
    document = tomllib.loads(text)
    sections = {"resume": Resume, "slurm": Slurm, "agent": Agent, "archive": Archive, "health": Health}
    for name, section in sections.items():
        assert list(document[name]) == [field.name for field in fields(section)]
        assert {key: tuple(v) if isinstance(v, list) else v for key, v in document[name].items()} == asdict(section())


def test_the_programs_in_c_understand_its_keys() -> None:
    path = EXAMPLES / "stepguard.toml"
    assert [problem for problem in local_problems(parse(path.read_text(), path)) if str(path) in problem] == []


def test_every_key_of_the_example_is_explained() -> None:
    blocks = (EXAMPLES / "stepguard.toml").read_text().split("\n\n")
    for block in blocks:
        lines = block.splitlines()
        if any(re.match(r"\w+ = ", line) for line in lines):
            assert lines[0].startswith("# "), block


@pytest.mark.parametrize("path", SLURM_CONF, ids=lambda path: path.name)
def test_parameters_are_slurms_own(path: Path) -> None:
    known = [name for shown in SHOWN for name in re.findall(r"^(\w+) +=", shown.read_text(), re.MULTILINE)]
    named = re.findall(r"^#?(\w+)=\S+$", path.read_text(), re.MULTILINE)
    assert named
    assert set(named) <= set(known)


@pytest.mark.parametrize("path", SLURM_CONF, ids=lambda path: path.name)
def test_defaults_of_our_own_are_cited_as_they_are(path: Path) -> None:
    text = " ".join(line.lstrip("# ") for line in path.read_text().splitlines())
    for key, seconds in re.findall(r"(\w+) \(stepguard\.toml, (\d+) s", text):
        assert getattr(Resume(), key) == float(seconds)


@pytest.mark.parametrize("name", ["torchrun-job.sh", "torchrun-node.sh"])
def test_the_example_for_users_is_clean_and_in_their_guide(name: str) -> None:
    path = EXAMPLES / name
    report = check_file(str(path))
    assert (report.parse, report.findings) == ("ok", ())
    assert [step.conditional for step in report.guarded_steps] == ([False] if name == "torchrun-job.sh" else [])
    told = path.read_text().replace("# SPDX-License-Identifier: Apache-2.0\n", "")
    assert f"```bash\n{told}```" in (REPOSITORY / "docs/user-guide.md").read_text()


def test_the_operator_guide_names_every_example() -> None:
    guide = (REPOSITORY / "docs/operator-guide.md").read_text()
    assert [path.name for path in EXAMPLES.iterdir() if path.name not in guide] == []
