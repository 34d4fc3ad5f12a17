# SPDX-License-Identifier: Apache-2.0
"""All checks, in the order in which things depend on one another. Asks; changes nothing."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stepguard import config as configuration
from stepguard.config import Config, Resume
from stepguard.doctor.agent import ask, check_agent
from stepguard.doctor.archive import check_archive
from stepguard.doctor.capture import check_capture
from stepguard.doctor.cluster import check_form, check_releases, no_client, no_controller
from stepguard.doctor.configuration import check_configuration, refused_configuration
from stepguard.doctor.detection import MAX_NODES, Answering, check_accounting, check_ports, check_timing
from stepguard.doctor.hooks import EXAMPLE, check_hooks
from stepguard.doctor.hooks import named as named_hooks
from stepguard.doctor.interpreter import check_interpreter
from stepguard.doctor.job import check_job
from stepguard.doctor.option import judge_answer
from stepguard.doctor.plugin import PLUGIN, check_plugin
from stepguard.doctor.plugstack import check_plugstack, configured_path, locate
from stepguard.doctor.plugstack_file import Line
from stepguard.doctor.reasons import check_reasons
from stepguard.doctor.result import Result, ok, unknown
from stepguard.doctor.sharing import check_sharing
from stepguard.doctor.strategies import check_strategies
from stepguard.errors import ConfigError, SlurmError
from stepguard.places import lock_holder
from stepguard.slurm import choice, connect, installation
from stepguard.slurm.records import ClusterConfig, Job

Refusal = Callable[[Job, Resume], str]
"""What a guarded step of this job would be told; empty when it would start."""
Problems = Callable[[Config], list[str]]
"""What would keep the agent of this node from its work."""


@dataclass
class Examination:
    """One run of the doctor. `prefix` is where stepguard is installed (None: it is not), `refusal` and `answering`
    are auto-resume's own, `problems` the agent's."""

    prefix: Path | None
    environment: Mapping[str, str]
    refusal: Refusal
    answering: Answering
    problems: Problems
    results: list[Result] = field(default_factory=list)
    _config: Config = field(default_factory=Config)
    _release: tuple[int, ...] | None = None
    _cluster: ClusterConfig | None = None
    _shown: Mapping[str, str] = field(default_factory=dict)

    def run(self) -> list[Result]:
        """Carries out all checks."""
        self._read_configuration(self._named_configuration())
        self._ask_slurm()
        lines = self._check_stack()
        self._check_configuration(lines)
        self._check_installation(lines)
        if self._cluster is not None:
            self._check_cluster(self._cluster)
            if self.prefix is not None:
                self._check_records(self.prefix, lines)
            self._check_job()
        return self.results

    def _named_configuration(self) -> Path | None:
        named = self.environment.get("STEPGUARD_CONFIG")
        return Path(named) if named else None

    def _read_configuration(self, path: Path | None) -> Result | None:
        """The configuration, or the defaults and the refusal."""
        try:
            self._config = configuration.load(path)
        except ConfigError as error:
            return refused_configuration(str(error))
        return None

    def _ask_slurm(self) -> None:
        try:
            self._release = installation.client_release()
        except SlurmError as error:
            self.results.append(no_client(str(error)))
            return
        try:
            self._cluster = connect(self._config.slurm).config()
            self._shown = installation.shown_config()
        except SlurmError as error:
            self.results.append(no_controller(str(error)))
            return
        self.results.append(check_releases(self._release, self._cluster.release))
        self.results.append(check_form(choice(self._config.slurm)))

    def _check_stack(self) -> list[Line]:
        configless = self._cluster is not None and "enable_configless" in self._cluster.slurmctld_parameters
        path = locate(self.environment, self._shown)
        if path is None and self._release is None:
            return []
        results, lines = check_plugstack(path, self.prefix, configless)
        self.results += results
        return lines

    def _check_configuration(self, lines: list[Line]) -> None:
        refused = self._read_configuration(self._named_configuration() or configured_path(lines))
        self.results += [refused] if refused else check_configuration(self._config)

    def _check_installation(self, lines: list[Line]) -> None:
        paths = [Path(line.path) for line in lines if line.path.startswith("/")]
        if self.prefix is None:
            found = "this stepguard runs from a source tree or a Python environment, without a plugin of its own"
            self.results.append(unknown("plugin", found, "`make install PREFIX=/opt/stepguard`, and run its doctor"))
        else:
            paths.insert(0, self.prefix / PLUGIN)
            self.results += check_interpreter(self.prefix)
            self.results.append(check_sharing(self.prefix, Path("/proc/self/mountinfo").read_text(errors="replace")))
        for path in {path.resolve(): path for path in reversed(paths)}.values():
            self.results += check_plugin(path, self._release)
        if lines and self._release is not None:
            try:
                self.results.append(judge_answer(installation.try_option()))
            except SlurmError as error:
                self.results.append(no_client(str(error)))

    def _check_cluster(self, cluster: ClusterConfig) -> None:
        resume = self._config.resume
        self.results += check_strategies(cluster, resume, bool(self._shown.get("GresTypes")))
        self.results += [check_timing(cluster, resume), check_accounting(cluster)]
        try:
            client = connect(self._config.slurm)
            self.results.append(check_reasons(client.all_nodes()))
            names = installation.responding_nodes()[:MAX_NODES]
            nodes = client.nodes(names)
        except SlurmError as error:
            self.results.append(unknown("node ports", str(error), "see `sinfo`"))
            return
        self.results.append(check_ports(nodes, resume.probe_s, self.answering, _user()))

    def _check_records(self, prefix: Path, lines: list[Line]) -> None:
        socket, hooks = Path(self._config.agent.socket), named_hooks(self._shown, prefix)
        answer = ask(socket)
        if not hooks and isinstance(answer, str):
            found = "slurm.conf names no hook of stepguard's and no agent answers here: jobs leave no record"
            self.results.append(ok("records", found, f"to have them: {prefix / EXAMPLE}"))
            return
        on_node = self._is_node()
        self.results += check_hooks(self._shown, prefix) + check_capture(bool(lines), self._config)
        if on_node:
            problems = self.problems(self._config) if os.geteuid() == 0 else []
            holder = lock_holder(Path(self._config.agent.spool))
            self.results += check_agent(answer, socket, problems, bool(hooks), holder)
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
        self.results += check_archive(Path(self._config.archive.dir), mounts, on_node)

    def _is_node(self) -> bool:
        """Whether Slurm has a node of this host's name."""
        name = self.environment.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]
        try:
            return bool(connect(self._config.slurm).nodes([name]))
        except SlurmError:
            return False

    def _check_job(self) -> None:
        job_id = self.environment.get("SLURM_JOB_ID", "")
        if not job_id:
            return
        try:
            job = connect(self._config.slurm).job(job_id)
        except SlurmError as error:
            self.results.append(unknown("this job", str(error), "is SLURM_JOB_ID that of a running job?"))
            return
        self.results += check_job(job, self.refusal(job, self._config.resume), self._config.resume)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
