# SPDX-License-Identifier: Apache-2.0
"""A cluster in which slurmstepd leaves notes: the nodes have spools, and no agent takes what lies there."""

from __future__ import annotations

from pathlib import Path

from guarded import until
from lab.cluster import Cluster
from stepguard.records import wire

Message = dict[str, bytes]


class Captured:
    """A cluster whose nodes have spools."""

    def __init__(self, lab: Cluster) -> None:
        self.lab = lab
        for node in lab.nodes:
            (lab.root(node) / "var/spool/stepguard").mkdir(mode=0o700, parents=True)
            (lab.root(node) / "etc/stepguard").mkdir(parents=True)

    def _spool(self, node: str) -> Path:
        return self.lab.root(node) / "var/spool/stepguard/notes"

    def forget(self) -> None:
        """Takes all notes and settings away."""
        for node in self.lab.nodes:
            (self.lab.root(node) / "etc/stepguard/stepguard.toml").unlink(missing_ok=True)
            for path in self._spool(node).glob("*"):
                path.unlink()

    def configure(self, text: str) -> None:
        """Gives all nodes these lines below [agent]."""
        for node in self.lab.nodes:
            (self.lab.root(node) / "etc/stepguard/stepguard.toml").write_text(f"[agent]\n{text}\n")

    def all_notes(self, kind: str, node: str | None = None) -> list[Message]:
        """What was told, in order; on all nodes, one after the other, if `node` does not say otherwise."""
        nodes = self.lab.nodes if node is None else [node]
        paths = [path for name in nodes for path in sorted(self._spool(name).glob("*.note"))]
        messages = [wire.decode(path.read_bytes()) for path in paths]
        return [message for message in messages if message["kind"] == kind.encode()]

    def notes(self, job: str, kind: str, step: str | None = None, node: str | None = None) -> list[Message]:
        """What was told of a job."""
        wanted = {"job_id": job, **({} if step is None else {"step_id": step})}
        notes = self.all_notes(kind, node)
        return [note for note in notes if all(note[name].decode() == value for name, value in wanted.items())]

    def one(self, job: str, kind: str, step: str | None = None, node: str | None = None) -> Message:
        """The only one of that sort."""
        (message,) = self.notes(job, kind, step, node)
        return message

    def await_end(self, job: str, step: str = "batch", times: int = 1) -> None:
        """Waits until slurmstepd has told so many ends."""
        until(f"end of {job}.{step}", lambda: len(self.notes(job, "step_end", step)) == times, 30)

    def state(self, job: str) -> str:
        """Slurm's word for the job now."""
        return self.lab.run(["squeue", "-h", "-o", "%T", "-j", job]).stdout.strip()

    def sbatch(self, script: str, *options: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
        """Runs a job to its end and returns its id."""
        path = self.lab.write("job.sh", script, mode=0o755)
        done = self.lab.run(["sbatch", "--parsable", *options, str(path)], env=env, cwd=cwd)
        job = done.stdout.strip()
        self.await_end(job)
        return job
