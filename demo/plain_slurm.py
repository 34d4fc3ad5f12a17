# SPDX-License-Identifier: Apache-2.0
"""What Slurm does without stepguard: measured figures where there are any, and what they are.

All were measured in the lab on Slurm 22.05.8: a batch job of three nodes (--exclusive --requeue, plain srun), its
second node lost, seconds from the fault.
"""

from __future__ import annotations

_DOWN_S = 396
"""SlurmdTimeout=300 (the default), power cut, until the node is DOWN; one run. The job is requeued with it."""
_DOWN_AT_10_S = 27
"""SlurmdTimeout=10, power cut; median of four runs (24.5 to 29.2)."""
_CUT_AT_10_S = 29
"""SlurmdTimeout=10, cable cut; mean of two runs."""
_AGAIN_S = 122
"""From the requeue until the batch script runs again; two runs (121.6 and 122.5), with shorter SlurmdTimeouts."""

_MEASURED = "Plain Slurm, measured apart: 22.05.8 in this lab, a batch job of three nodes, one of them powered off."


def after_node(total_s: float) -> str:
    """A node that is not the batch host lost its power."""
    plain_s = _DOWN_S + _AGAIN_S
    return "\n".join(
        (
            _MEASURED,
            f"  {_DOWN_S:14} s    the node is DOWN and the job requeued (SlurmdTimeout=300, the default; one run);",
            f"  {'':14}      until then the training hangs",
            f"  {_AGAIN_S:14} s    more: the batch script starts again (two runs, with shorter SlurmdTimeouts)",
            f"  {plain_s:14} s    against {total_s:.1f} s here: {plain_s / total_s:.0f} times as long",
        )
    )


def after_link(total_s: float) -> str:
    """A node's cable was cut."""
    return "\n".join(
        (
            after_node(total_s),
            f"A cut cable looks the same to Slurm: at SlurmdTimeout=10 the node is DOWN {_CUT_AT_10_S} s after a cut",
            f"and {_DOWN_AT_10_S} s after a power-off.",
        )
    )


def after_node_without_spare(total_s: float) -> str:
    """A node of a GPU job was lost, and the job has no spare."""
    return "\n".join(
        (
            after_node(total_s),
            "No Slurm from 22.05 to 26.05 lets a job with GPUs (GRES) grow: it goes back into the queue, and waits for",
            "as many free nodes as it had. Here it kept its own, and got one more.",
        )
    )


def after_batch_host(total_s: float) -> str:
    """The batch host lost its power, in a lab with short timeouts."""
    return "\n".join(
        (
            _MEASURED,
            f"  {_DOWN_S:14} s    the node is DOWN and the job requeued at the default SlurmdTimeout=300 (one run)",
            f"  {_DOWN_AT_10_S:14} s    the same at SlurmdTimeout=10 (median of four runs); it is 20 in this story",
            f"  {_AGAIN_S:14} s    more: the batch script starts again, at the default cred_expire=120 (two runs)",
            "Little is gained in time: also here Slurm starts a requeued job again only when the dead node is DOWN and",
            f"old credentials have expired; that is most of the {total_s:.1f} s. What is gained: the lost host is left",
            "out, the attempts are counted on, and their limits hold across the requeue.",
        )
    )


def after_gpu(total_s: float) -> str:
    """A GPU failed under a program that hangs; the node answers."""
    return "\n".join(
        (
            "Plain Slurm does nothing here: the node answers, srun waits, and the job holds its nodes until its time",
            f"limit or until somebody looks. There is no figure to set against the {total_s:.1f} s.",
        )
    )


def after_application() -> str:
    """The program raised an error."""
    return "\n".join(
        (
            "Plain Slurm does the same. A guard that ran the program again would repeat the error until its limit,",
            "and hide it.",
        )
    )
