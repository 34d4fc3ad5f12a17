# SPDX-License-Identifier: Apache-2.0
"""`python -m demo [FAULT]`, as root, with tests/ on PYTHONPATH: `make demo` sees to that.

Exit status 0: the story went as told. 1: it did not, or the lab could not. 130: interrupted. All is cleaned up.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from types import FrameType

from demo.job import USER, Job
from demo.record import record
from demo.screen import Screen
from demo.stage import Stage, StoryError
from demo.stories import STORIES, Story
from lab import Cluster, LabError
from lab.agents import SLURM_CONF as HOOKS
from lab.releases import Release
from lab.roots import product

_PACKAGES = "usr/lib/python3/dist-packages"
# The demo's GPUs are device files: NVML has nothing to tell of them.
_AGENTS = '[health]\nprobes = ["host"]\ngpu_events = false'
_PLUGSTACK = "optional /opt/stepguard/lib/slurm/stepguard.so\n"
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Tells the story that the command line names; the exit status."""
    usage = f"make demo [FAULT={'|'.join(STORIES)}]"
    parser = argparse.ArgumentParser(usage=usage, description="A guarded training step meets a real fault.")
    parser.add_argument("fault", nargs="?", default="node", choices=STORIES)
    story = STORIES[parser.parse_args().fault]
    for number in _INTERRUPTS:
        signal.signal(number, _interrupt)
    screen = Screen()
    try:
        closing = _play(story, screen)
    except KeyboardInterrupt:
        screen.say("demo", "interrupted; the lab is gone")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on: nothing to flush at the end
        return 1
    except (LabError, StoryError) as error:
        notes = getattr(error, "__notes__", [])
        print("\n".join([*notes, f"demo: {error}"]), file=sys.stderr)
        return 1
    screen.show(f"\n{closing}")
    return 0


def _play(story: Story, screen: Screen) -> str:
    """Builds, starts the lab, submits, and plays; the closing lines. The lab is gone when it returns or raises."""
    if os.geteuid() != 0:
        raise LabError("the lab makes namespaces and mounts: run this as root")
    screen.say("demo", f"the story: {story.plot}")
    root = Release.find(None).root
    if not (root / _PACKAGES / story.program.package).is_dir():
        raise LabError(f"python3-{story.program.package} is not installed in {root}")
    screen.say("demo", "make install PREFIX=/opt/stepguard DESTDIR=build/product (the first time takes a minute)")
    prefix = product()
    screen.say("demo", f"starting a Slurm cluster of {story.num_nodes} nodes on this machine")
    with Cluster(story.num_nodes, story.gpus_per_node, story.slurm_conf, _PLUGSTACK, prefix, agents=_AGENTS) as lab:
        gpus = f", {story.gpus_per_node} GPUs each" if story.gpus_per_node else ""
        screen.say("slurm", f"Slurm {lab.release.version}, nodes {', '.join(lab.nodes)} are idle{gpus}")
        screen.say("slurm", f"plugstack.conf: {_PLUGSTACK}")
        screen.say("slurm", f"slurm.conf: {' '.join(f'{key}={path}' for key, path in HOOKS.items())}")
        job = Job(lab, story.program, story.options)
        screen.say("demo", f"{USER} submits spirals.sh:")
        screen.say("script", job.script)
        job.submit()
        screen.say("slurm", f"Submitted batch job {job.id}")
        closing = story.tell(Stage(lab, screen, job))
        page = record(lab, job.id)
        screen.say("demo", "the story went as told; ending the lab")
    return f"{closing}\n\nWhat is kept of the job, as `stepguard job {job.id}` shows it (shortened):\n\n{page}"


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Once is enough: nothing disturbs the cleaning up."""
    for other in _INTERRUPTS:
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
