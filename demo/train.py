# SPDX-License-Identifier: Apache-2.0
"""A small real training run: a two-layer network learns to tell two spirals apart, data-parallel over TCP.

Each rank holds its share of the data; every step the gradients of all ranks are summed through rank 0 and every rank
applies the same update. As with NCCL, a rank whose peer has died waits for it for ever. Rank 0 writes a checkpoint
every few steps, by rename, and a new start goes on from it.

    MASTER_ADDR=host MASTER_PORT=29500 srun -N3 -n3 python3 train.py --steps 600 --checkpoint DIR/model.npz
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
HIDDEN = 32
LEARNING_RATE = 0.2
CONNECT_S = 60.0


class Group:
    """All ranks, joined in rank 0. `sum` returns the sum of every rank's array to every rank."""

    def __init__(self, rank: int, size: int, address: str, port: int) -> None:
        self.rank, self.size = rank, size
        self._peers: list[socket.socket] = []
        if rank == 0:
            with socket.create_server(("", port), family=socket.AF_INET) as server:
                while len(self._peers) < size - 1:
                    self._peers.append(server.accept()[0])
        else:
            self._peers.append(_connect(address, port))
        for peer in self._peers:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def sum(self, values: Array) -> Array:
        """Blocks until every rank has given its part, for ever if one of them is dead."""
        if self.rank == 0:
            total = values.copy()
            for peer in self._peers:
                total += np.frombuffer(_receive(peer))
            for peer in self._peers:
                _send(peer, total.tobytes())
            return total
        _send(self._peers[0], values.tobytes())
        return np.frombuffer(_receive(self._peers[0]))


def _connect(address: str, port: int) -> socket.socket:
    """Rank 0 may start a moment after us."""
    end_s = time.monotonic() + CONNECT_S
    while True:
        try:
            peer = socket.create_connection((address, port), timeout=5)
        except OSError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.05)
        else:
            peer.settimeout(None)
            return peer


def _send(peer: socket.socket, data: bytes) -> None:
    peer.sendall(struct.pack("!I", len(data)) + data)


def _receive(peer: socket.socket) -> bytes:
    (size,) = struct.unpack("!I", _read(peer, 4))
    return _read(peer, size)


def _read(peer: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = peer.recv(size - len(data))
        if not part:
            raise ConnectionError("a peer has closed the connection")
        data += part
    return bytes(data)


def spirals(rank: int, size: int) -> tuple[Array, Array]:
    """This rank's share of two noisy spirals: points (n, 2) and classes (n,) of 0 or 1."""
    random = np.random.default_rng(7)
    turn = np.sqrt(random.random(1200)) * 3 * np.pi
    classes = (np.arange(1200) % 2).astype(float)
    angle = turn + classes * np.pi
    points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], axis=1) / (3 * np.pi)
    points += random.normal(0, 0.01, points.shape)
    return points[rank::size], classes[rank::size]


def features(points: Array) -> Array:
    """Points with what makes a spiral easy for a small network."""
    radius = np.linalg.norm(points, axis=1, keepdims=True)
    turn = radius * 3 * np.pi
    return np.concatenate([points, radius, np.cos(turn), np.sin(turn)], axis=1)


def forward(weights: list[Array], inputs: Array) -> tuple[Array, Array]:
    """The hidden layer, and the logit of each point."""
    hidden = np.tanh(np.c_[inputs, np.ones(len(inputs))] @ weights[0])
    return hidden, (np.c_[hidden, np.ones(len(hidden))] @ weights[1])[:, 0]


def gradients(weights: list[Array], inputs: Array, classes: Array) -> tuple[list[Array], float]:
    """Gradients of the summed cross-entropy, and that sum."""
    hidden, logits = forward(weights, inputs)
    probabilities = 1 / (1 + np.exp(-logits))
    loss = -np.sum(classes * np.log(probabilities + 1e-12) + (1 - classes) * np.log(1 - probabilities + 1e-12))
    error = (probabilities - classes)[:, None]
    back = (error @ weights[1][:-1].T) * (1 - hidden**2)
    return [np.c_[inputs, np.ones(len(inputs))].T @ back, np.c_[hidden, np.ones(len(hidden))].T @ error], float(loss)


def load(path: Path, inputs: int) -> tuple[int, list[Array]]:
    """The next step and the weights: from the checkpoint, or fresh ones."""
    if path.exists():
        with np.load(path) as saved:
            return int(saved["step"]), [saved["first"], saved["second"]]
    random = np.random.default_rng(1)
    return 0, [random.normal(0, 0.5, (inputs + 1, HIDDEN)), random.normal(0, 0.5, (HIDDEN + 1, 1))]


def save(path: Path, step: int, weights: list[Array]) -> None:
    """Never leaves a half-written checkpoint."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        np.savez(file, step=step, first=weights[0], second=weights[1])
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


def right(weights: list[Array], inputs: Array, classes: Array) -> float:
    """How many of these points the network tells apart rightly."""
    _, logits = forward(weights, inputs)
    return float(np.sum((logits > 0) == (classes > 0.5)))


def train(group: Group, options: argparse.Namespace) -> tuple[float, float]:
    """Trains to the last step; the mean loss over all ranks' data before it, and the accuracy after it."""
    points, classes = spirals(group.rank, group.size)
    inputs = features(points)
    step, weights = load(options.checkpoint, inputs.shape[1])
    first, loss = step + 1, float("nan")
    say = _speaker(group.rank)
    say(f"starts at step {step} on {os.environ.get('SLURM_STEP_NODELIST', 'this host')}")
    while step < options.steps:
        local, local_loss = gradients(weights, inputs, classes)
        total = group.sum(np.concatenate([*(g.ravel() for g in local), [local_loss, float(len(points))]]))
        count, loss = total[-1], total[-2] / total[-1]
        at = weights[0].size
        weights[0] = weights[0] - LEARNING_RATE * total[:at].reshape(weights[0].shape) / count
        weights[1] = weights[1] - LEARNING_RATE * total[at:-2].reshape(weights[1].shape) / count
        step += 1
        if step == options.fail_at and group.rank == group.size - 1:
            raise RuntimeError(f"CUDA error: an illegal memory access was encountered (step {step})")
        if step == first:
            say(f"all {group.size} ranks train: step {step}")
        if group.rank == 0 and step % options.every == 0:
            save(options.checkpoint, step, weights)
            say(f"checkpoint of step {step:4d}, loss {loss:.4f}")
        time.sleep(options.pause)
    rightly, count = group.sum(np.array([right(weights, inputs, classes), float(len(points))]))
    return loss, rightly / count


def _speaker(rank: int) -> Callable[[str], None]:
    """Rank 0 speaks for all. stepguard counts the attempts of a step, the first is 0."""
    attempt = os.environ.get("STEPGUARD_ATTEMPT", "0")
    if rank:
        return lambda _: None
    return lambda text: print(f"attempt {attempt}: {text}", flush=True)


def main() -> int:
    """Joins the group that Slurm's environment tells, and trains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--every", type=int, default=50, help="steps between checkpoints")
    parser.add_argument("--pause", type=float, default=0.02, metavar="SECONDS", help="what a real step would take")
    parser.add_argument("--fail-at", type=int, default=0, metavar="STEP", help="the last rank raises an error then")
    options = parser.parse_args()
    rank, size = int(os.environ.get("SLURM_PROCID", "0")), int(os.environ.get("SLURM_NTASKS", "1"))
    group = Group(rank, size, os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29500")))
    try:
        loss, accuracy = train(group, options)
    except ConnectionError as error:
        sys.exit(f"rank {rank}: {error}")
    if rank == 0:
        print(f"done: {options.steps} steps, loss {loss:.4f}, {accuracy:.1%} of the points told apart", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
