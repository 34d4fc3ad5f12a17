# SPDX-License-Identifier: Apache-2.0
"""splice: the step goes on as one step over two jobs, its survivors in the job and the replacement in a helper job.

For programs that find one another through the environment (torchrun, torch.distributed, JAX, NCCL): the plugin gives
each task its place in the whole. With or without GRES, on every release, without going back to the queue.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from stepguard.resume import helper_job, places, proof
from stepguard.resume.helper_job import HelperJob
from stepguard.resume.proof import Unfit
from stepguard.resume.reach import answering
from stepguard.resume.relaunch import uses_pmi
from stepguard.resume.situation import Situation
from stepguard.resume.strategies.outcome import Failed, Outcome, Placement
from stepguard.slurm.records import Share

_POLL_S = 0.01
_ASK_REASON_S = 0.5
_TELL_S = 15.0
# Before slurmctld gives a dead node up, and with it the job, the job must be rid of it.
_SHARE_OF_SLURMD_TIMEOUT = 0.5
# A limit that the dead node's own share fills is no limit once that is given back, and Slurm's scheduler has looked at
# the queue again, which took more than 3 s on a busy machine (26.05).
_AFTER_SHRINK_S = 8.0
# Nodes that Slurm calls idle may be dead, faulty or without the plugin: so many helpers are tried.
_TRIES = 3
# A pending job's reason that time alone does not take away: a limit of the user's, the account's, the partition's.
_LIMIT = re.compile(r"Limit|^(Assoc|QOS)(Grp|Max)|Invalid|NotAllowed|BadConstraints|NodeConfig")
# %t and %n are numbers of a task and a node within one srun.
_PART_PATTERN = re.compile(r"(?<!%)(?:%%)*%\d*[tn]")


class Splice:
    """Gets nodes by a helper job that lives as long as the step needs them."""

    def probe(self, situation: Situation) -> str:
        """Needs a program that reads its place from the environment, and the plugin on the nodes."""
        command, config = situation.command, situation.config
        if config.splice_wait <= 0:
            return "switched off ([resume] splice_wait = 0)"
        if situation.batch_host_lost:
            return "the batch host is lost"
        if uses_pmi(command, situation.cluster, config):
            how = f"--mpi={command.mpi}" if command.mpi else f"MpiDefault={situation.cluster.mpi_default}"
            return f"the program is started through PMI ({how}); --mpi=none if it does not need that"
        for option, what in (("pty", "--pty"), ("multi-prog", "--multi-prog"), ("relative", "--relative")):
            if command.given(option):
                return f"{what} is of one srun, and a spliced step has several"
        if command.distribution.startswith("arbitrary"):
            return "--distribution=arbitrary fixes each task to a node"
        for option, value in (("--output", command.output), ("--error", command.error)):
            if value.isdigit() or ("\\" not in value and _PART_PATTERN.search(value)):
                return f"{option}={value} goes by the number of a task or node, which each part counts for itself"
        if command.input.isdigit() and int(command.input) != 0:
            return f"--input={command.input} goes by the number of a task, which each part counts for itself"
        survivors = tuple(name for name in situation.usable if name in situation.job.nodes)
        if not survivors:
            return "no node of the job itself is left"
        if situation.layout is None:
            return "it is not known which ranks were on which node"
        if not places.fits(situation.layout):
            return "the step is too large for srun's arguments and environment (128 KiB each)"
        if not situation.have_plugin(survivors):
            return "the plugin is not loaded in slurmstepd on all nodes (plugstack.conf)"
        return ""

    def carry_out(self, situation: Situation) -> Outcome:
        """Asks for a helper, drops the bad nodes once there is one, and has its nodes proven."""
        job = situation.job
        shares = situation.slurm.shares(job.id)
        lost = [share for share in shares if share.node in situation.bad] or shares
        avoided: list[str] = []
        end_s = time.monotonic() + _bound_s(situation)
        for _ in range(_TRIES):
            helper = HelperJob(situation.slurm, _options(situation, lost, avoided))
            try:
                refusal = _await_start(situation, helper, end_s)
                if not refusal:
                    unfit = _take(situation, helper)
                    if unfit is None:
                        situation.helpers.append(helper)
                        if situation.command.given("label"):
                            situation.messages.info("labels (-l) count the tasks of each job by themselves now")
                        situation.messages.info(f"Helper job {helper.id} lends {','.join(helper.nodes)}")
                        nodes = (*situation.usable, *helper.nodes)[: len(situation.step_nodes)]
                        return Placement(situation.in_order(nodes), proven=helper.nodes)
                    refusal = f"helper job {helper.id} is of no use: {unfit.why}"
                    situation.messages.info(refusal)
                    avoided += unfit.nodes
            except BaseException:
                helper.end()
                raise
            helper.end()
            if not avoided:
                break
        return Failed(refusal)


def _bound_s(situation: Situation) -> float:
    bound_s = situation.config.splice_wait
    return bound_s if situation.deadline_s is None else min(bound_s, situation.deadline_s)


def _options(situation: Situation, lost: list[Share], avoided: list[str]) -> dict[str, str]:
    job = situation.job
    lent = [name for helper in situation.helpers for name in helper.nodes]
    exclude = tuple(dict.fromkeys((*job.nodes, *lent, *situation.bad, *avoided)))
    options = helper_job.like(job, situation.missing, exclude)
    if asked := situation.command.value("constraint"):
        options["--constraint"] = f"{job.features}&{asked}" if job.features else asked
    return options | helper_job.as_much_as(lost, bool(job.exclusive), job.time_left_s)


def _await_start(situation: Situation, helper: HelperJob, end_s: float) -> str:
    """Waits until the helper runs; why it does not, "" once it does."""
    slurmd_timeout_s = situation.cluster.slurmd_timeout_s
    began_s = time.monotonic()
    shrink_s = began_s + slurmd_timeout_s * _SHARE_OF_SLURMD_TIMEOUT if slurmd_timeout_s else end_s
    ask_s, tell_s, limit_s = began_s + _ASK_REASON_S, began_s + 1.0, end_s
    reason = ""
    while (now_s := time.monotonic()) < min(end_s, limit_s):
        if helper.granted():
            return ""
        if refusal := helper.refused():
            return f"no helper job: {refusal}"
        if now_s >= ask_s and helper.id:
            ask_s = now_s + _ASK_REASON_S
            reason = situation.slurm.job(helper.id).reason
            if _LIMIT.search(reason) and limit_s == end_s:
                situation.shrink()
                limit_s = now_s + _AFTER_SHRINK_S
        if now_s >= shrink_s:
            situation.shrink()
            shrink_s = end_s
        if now_s >= tell_s and not _LIMIT.search(reason):
            tell_s = now_s + _TELL_S
            left_s = end_s - now_s
            situation.messages.info(
                f"waiting up to {left_s:.0f} s for {situation.missing} more node(s): helper job {helper.id} is in the"
                f" queue ({reason or 'no reason yet'})"
            )
        if not situation.pause(_POLL_S):
            return "interrupted"
    if _LIMIT.search(reason):
        return f"Slurm allows no helper job: {reason}"
    return f"no node became free within {_bound_s(situation):.0f} s ({reason or 'helper job in the queue'})"


def _take(situation: Situation, helper: HelperJob) -> Unfit | None:
    """Drops the bad nodes, ends the attempt, and has the helper's nodes proven by their watch meanwhile."""
    helper.take_nodes()
    spots = {node.name: (node.address, node.port) for node in situation.slurm.nodes(helper.nodes)}

    def alive(names: Iterable[str]) -> set[str]:
        return answering({name: spots[name] for name in names}, situation.config.probe_s)

    if silent := sorted(spots.keys() - alive(spots)):
        return Unfit(f"{','.join(silent)} does not answer", silent)
    helper.watch = situation.open_watch(helper.id, helper.nodes)
    proof.begin(helper.watch)
    situation.shrink()
    situation.end_attempt()
    return proof.finish(helper.watch, lambda seconds: not helper.refused() and situation.pause(seconds), alive)
