# SPDX-License-Identifier: Apache-2.0
"""What Slurm says about a job, a node, a step and the cluster, whichever form asked it.

Names of hosts are Slurm's NodeName. Times are whole seconds since the epoch, spans are in seconds. An absent value
is None or empty, never one of Slurm's own sentinels (NO_VAL, "(null)", "N/A"). Whether a job was submitted with
--no-kill is not here: slurmctld tells nobody, in no release up to 26.05.

Named tuples, for these are defined before every guarded step: as data classes they would take 2 ms more.
"""

from __future__ import annotations

from typing import NamedTuple


class Job(NamedTuple):
    """One job, as slurmctld has it now.

    `state` is Slurm's base state (RUNNING, PENDING, COMPLETING, NODE_FAIL, …; squeue(1), JOB STATE CODES), and
    `reason` why it waits or ended ("" where Slurm says None). `nodes` are those it holds now, in Slurm's own
    order; empty while it is pending. An ended job keeps the nodes that it had.
    """

    id: str
    user_id: int
    state: str
    reason: str
    partition: str
    qos: str
    account: str
    nodes: tuple[str, ...]
    batch_host: str
    # A batch job; False for salloc and for srun's own allocation.
    is_batch: bool
    requeue_allowed: bool
    restart_count: int
    # No other job may share its nodes; None where Slurm's answer does not tell.
    exclusive: bool | None
    # It holds or asked for a GRES, also one that --exclusive brought along: Slurm merges no other job into it.
    has_gres: bool
    # Until the time limit, None without one (or while the job has not started).
    time_left_s: float | None
    end_time: int | None
    num_cpus: int
    # CPUs on each of `nodes`, written as SLURM_JOB_CPUS_PER_NODE is: "4(x3),2"; empty where Slurm did not say.
    cpus_per_node: str
    # The steps are managed by the batch host instead of slurmctld (24.05 on).
    stepmgr: bool
    # The whole job's id where this is one component of it, else "".
    het_job_id: str
    array_job_id: str
    array_task_id: str
    comment: str
    reservation: str
    features: str
    # Exit status and signal of the batch script, as in "1:0"; meaningful once the job has ended.
    exit_code: str


class Share(NamedTuple):
    """What a job holds on one node. `gres` is as --gres takes it, "gpu:a100:4"; empty where it holds none.

    `cpus` counts the CPUs that are kept from other jobs; 0 and `memory_mib` 0 where Slurm does not say.
    """

    node: str
    cpus: int
    memory_mib: int
    gres: str


class Node(NamedTuple):
    """One node. `states` holds the base state and all flags in upper case: {"DOWN", "NOT_RESPONDING", "CLOUD"}.

    `reason` is as an administrator or slurmctld wrote it, without the "[user@time]" that scontrol adds; these are
    `reason_user` and `reason_time` (slurmctld's clock). Slurm keeps a reason only while the node is out of service.
    """

    name: str
    address: str
    port: int
    states: frozenset[str]
    reason: str
    boot_time: int | None
    slurmd_start_time: int | None
    cpus: int
    partitions: tuple[str, ...]
    reason_user: str
    reason_time: int | None
    # Free text of the administrators', which Slurm does not look at.
    comment: str
    # As it is configured: "gpu:h100:8(S:0-1),mps:800"; empty where it has none, or that is not told (slurm.gres).
    gres: str = ""


class Step(NamedTuple):
    """One step that slurmctld still has a record of.

    `id` is the part after the job's: "0", "batch", "extern", "interactive". `srun_pid` is 0 where no srun waits.
    """

    job_id: str
    id: str
    name: str
    state: str
    nodes: tuple[str, ...]
    srun_host: str
    srun_pid: int
    num_tasks: int


class ClusterConfig(NamedTuple):
    """The parts of `scontrol show config` that decisions need.

    `release` is that of slurmctld, (22, 5, 8). The lists keep Slurm's words, values included ("max_rpc_cnt=150").
    `slurmctld_places` are the controllers' addresses and ports, the primary first.
    """

    cluster_name: str
    release: tuple[int, ...]
    slurmctld_places: tuple[tuple[str, int], ...]
    prolog_flags: frozenset[str]
    scheduler_parameters: tuple[str, ...]
    slurmctld_parameters: tuple[str, ...]
    launch_parameters: tuple[str, ...]
    slurmd_timeout_s: int
    return_to_service: int
    select_type: str
    mpi_default: str
    # KillOnBadExit: srun ends a step of which one task has failed.
    kill_on_bad_exit: bool
    accounting_storage_type: str
    job_requeue: bool
    # AuthInfo's cred_expire (default 120): a requeued job waits this long plus one second before 26.05.
    credential_lifetime_s: int
