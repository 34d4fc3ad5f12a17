# SPDX-License-Identifier: Apache-2.0
"""The spirals of train.py with PyTorch: DistributedDataParallel over gloo, whose ranks meet through the environment.

Each rank keeps its checkpoint on its own node, under its own rank, so that nothing is written to a shared file system.
A new start goes on from the newest; a rank that does not have it, for its node is a new one, gets it from one that has.

    MASTER_ADDR=host MASTER_PORT=29500 RANK=0 WORLD_SIZE=3 python3 train_torch.py --checkpoints /tmp/spirals
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found]  # of the lab's hosts, not of the tools that check this
import torch.distributed as dist  # type: ignore[import-not-found]
from torch import Tensor, nn

Checkpoint = dict[str, Any]
POINTS = 1200
HIDDEN = 32


def spirals(rank: int, size: int) -> tuple[Tensor, Tensor]:
    """This rank's share of two noisy spirals: inputs (n, 5) and classes (n, 1) of 0 or 1."""
    random = torch.Generator().manual_seed(7)
    turn = torch.sqrt(torch.rand(POINTS, generator=random)) * 3 * math.pi
    classes = (torch.arange(POINTS) % 2).float()
    angle = turn + classes * math.pi
    points = torch.stack([turn * torch.cos(angle), turn * torch.sin(angle)], dim=1) / (3 * math.pi)
    points += 0.01 * torch.randn(points.shape, generator=random)
    radius = points.norm(dim=1, keepdim=True)
    turn = radius * 3 * math.pi
    inputs = torch.cat([points, radius, torch.cos(turn), torch.sin(turn)], dim=1)
    return inputs[rank::size], classes[rank::size, None]


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Never leaves a half-written checkpoint."""
    temporary = path.with_suffix(".tmp")
    torch.save(checkpoint, temporary)
    temporary.rename(path)


def newest(path: Path, size: int) -> tuple[Checkpoint | None, list[tuple[str, int]]]:
    """The newest checkpoint that any rank has on its node, on all ranks; and each rank's node and the step of its own.

    A step of 0: it has none. A power cut may leave the ranks with checkpoints of different steps.
    """
    own = torch.load(path) if path.exists() else None
    found: list[Any] = [None] * size
    dist.all_gather_object(found, (os.uname().nodename, own["step"] if own else 0))
    steps = [step for _, step in found]
    box = [own]
    dist.broadcast_object_list(box, src=steps.index(max(steps)))
    return box[0], found


def tell_origins(say: Callable[[str], None], found: Sequence[tuple[str, int]]) -> None:
    """Which rank is where, and whose checkpoint it goes on from."""
    steps = [step for _, step in found]
    source = steps.index(max(steps))
    for rank, (node, step) in enumerate(found):
        what = f"its own checkpoint of step {step}" if step else "no checkpoint on this node"
        from_another = "" if step == steps[source] else f", takes that of rank {source}"
        say(f"rank {rank} on {node}: {what}{from_another}")


def mean(value: Tensor, size: int) -> float:
    """The mean of every rank's value."""
    total = value.detach().clone()
    dist.all_reduce(total)
    return float(total) / size


def train(rank: int, size: int, options: argparse.Namespace) -> None:
    """Trains to the last step; rank 0 tells how it goes."""
    say = _speaker(rank)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.75)
    options.checkpoints.mkdir(exist_ok=True)
    path = options.checkpoints / f"rank-{rank}.pt"
    checkpoint, found = newest(path, size)
    step = 0
    if checkpoint:
        step = checkpoint["step"]
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    say(f"starts at step {step} on {os.environ.get('SLURM_STEP_NODELIST', 'this host')}")
    tell_origins(say, found)

    parallel, first = nn.parallel.DistributedDataParallel(model), step + 1
    inputs, classes = spirals(rank, size)
    loss_of = nn.BCEWithLogitsLoss()
    loss = math.nan
    while step < options.steps:
        optimizer.zero_grad()
        local = loss_of(parallel(inputs), classes)
        local.backward()  # sums the gradients of all ranks
        optimizer.step()
        loss = mean(local, size)
        step += 1
        if step == first:
            say(f"all {size} ranks train: step {step}")
        if step % options.every == 0:
            save(path, {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()})
            say(f"checkpoint of step {step:4d}, loss {loss:.4f}")
        time.sleep(options.pause)
    rightly = mean(((model(inputs) > 0) == (classes > 0.5)).float().mean(), size)
    if rank == 0:
        print(f"done: {step} steps, loss {loss:.4f}, {rightly:.1%} of the points told apart", flush=True)


def _speaker(rank: int) -> Callable[[str], None]:
    """Rank 0 speaks for all. stepguard counts the attempts of a step, the first is 0."""
    attempt = os.environ.get("STEPGUARD_ATTEMPT", "0")
    if rank:
        return lambda _: None
    return lambda text: print(f"attempt {attempt}: {text}", flush=True)


def main() -> None:
    """Joins the group that the environment tells, and trains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--checkpoints", type=Path, required=True, help="a directory of each node's own")
    parser.add_argument("--every", type=int, default=50, help="steps between checkpoints")
    parser.add_argument("--pause", type=float, default=0.02, metavar="SECONDS", help="what a real step would take")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(dist.get_rank(), dist.get_world_size(), options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
