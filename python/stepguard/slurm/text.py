# SPDX-License-Identifier: Apache-2.0
"""What `scontrol show` prints → records. Pure.

A job's output holds texts of its owner's (name, account, comment, command), printed as they are, line breaks
included, so that they can imitate any line. What Slurm itself says stands on lines of known beginnings above
"Command="; the output is read only when each of them is there exactly once, so that an imitation costs its owner
an answer and misleads nobody. The layout is that of scontrol from 22.05 to 26.05. Times are UTC: scontrol runs
with TZ=UTC and without SLURM_TIME_FORMAT.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from stepguard.slurm.hostlist import expand
from stepguard.slurm.records import ClusterConfig, Job, Node, Share, Step

_LINE = re.compile(r"(?: {3})?([A-Za-z/]+)=")
# The lines of a job that are read, each unique above "Command="; those in _OPTIONAL only where there is something.
_REQUIRED = frozenset(
    {
        *("JobId", "UserId", "Priority", "JobState", "Requeue", "StartTime", "Partition", "NodeList", "NumNodes"),
        *("Socks/Node", "Features", "OverSubscribe"),
    }
)
_OPTIONAL = frozenset(["BatchHost", "TRES", "ReqTRES", "AllocTRES", "MinCPUsNode", "JOB_GRES", "Reservation"])
_ABSENT = frozenset(["(null)", "N/A", "None", "none", "Unknown"])
# "     Nodes=n[1-3] CPU_IDs=0-7 Mem=800 GRES=gpu:2(IDX:0-1)"; the memory is in MiB.
_SHARE = re.compile(r"^ {5}Nodes=(\S+) CPU_IDs=([\d,-]*) Mem=(\d+) GRES=(\S*)", re.MULTILINE)
# The states in which a job uses up its time limit.
HAS_TIME_LEFT = frozenset(["RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED"])


class Ambiguous(ValueError):
    """The output does not hold exactly one job, or a text of its owner's imitates Slurm's own lines."""


def job(output: str, now_s: float) -> Job:
    """The job of `scontrol --details show job ID`; `now_s` is the time of asking. Raises Ambiguous."""
    head, details = _head(output)
    ids = re.match(r"JobId=(\d+)(?: ArrayJobId=(\d+) ArrayTaskId=(\S+))?(?: HetJobId=(\d+))?", head["JobId"])
    user = re.search(r"\((\d+)\) GroupId=", head["UserId"])
    if ids is None or user is None:
        raise Ambiguous(head["JobId"])
    state = _field(head["JobState"], "JobState")
    nodes = tuple(expand(_field(head["NodeList"], "NodeList")))
    end_time = parse_time(_field(head["StartTime"], "EndTime"))
    return Job(
        id=ids[1],
        user_id=int(user[1]),
        state=state,
        reason=_field(head["JobState"], "Reason"),
        partition=_field(head["Partition"], "Partition"),
        qos=_field(head["Priority"], "QOS"),
        account=_field(head["Priority"], "Account"),
        nodes=nodes,
        batch_host=_field(head.get("BatchHost", ""), "BatchHost"),
        is_batch=_field(head["Requeue"], "BatchFlag") != "0",
        requeue_allowed=_field(head["Requeue"], "Requeue") != "0",
        restart_count=int(_field(head["Requeue"], "Restarts")),
        exclusive=_exclusive(head["OverSubscribe"]),
        has_gres=_has_gres(output, head, details),
        time_left_s=end_time - now_s if end_time is not None and state in HAS_TIME_LEFT else None,
        end_time=end_time,
        num_cpus=int(_field(head["NumNodes"], "NumCPUs")),
        cpus_per_node=_cpus_per_node(head["NumNodes"], details, nodes),
        stepmgr=bool(re.search(r"^ {3}StepMgrEnabled=Yes", output, re.MULTILINE)),
        het_job_id=ids[4] or "",
        array_job_id=ids[2] or "",
        array_task_id=ids[3] or "",
        comment=_owners_text(output, "Comment"),
        reservation=_field(head.get("Reservation", ""), "Reservation"),
        features=_field(head["Features"], "Features"),
        exit_code=_field(head["Requeue"], "ExitCode"),
    )


def shares(output: str) -> list[Share]:
    """What the job of `scontrol --details show job ID` holds on each of its nodes. Raises Ambiguous."""
    return [
        Share(name, _count(ids), int(memory), _requested_gres(gres))
        for where, ids, memory, gres in _SHARE.findall(_head(output)[1])
        for name in expand(where)
    ]


def nodes(output: str) -> list[Node]:
    """The nodes of `scontrol show node LIST`, in the order printed."""
    return [_node(record) for record in re.split(r"^(?=NodeName=)", output, flags=re.MULTILINE)[1:]]


def steps(output: str) -> list[Step]:
    """The steps of `scontrol show step JOB`, in the order printed.

    Only the owner of a job names its steps, and what a hostile name can do is invent steps of that same job.
    """
    return [_step(record) for record in re.split(r"^(?=StepId=)", output, flags=re.MULTILINE)[1:]]


def config(output: str) -> ClusterConfig:
    """The configuration of `scontrol show config`."""
    values: dict[str, str] = {}
    for name, value in re.findall(r"^([\w\[\]]+)\s*= (.*)$", output, re.MULTILINE):
        values.setdefault(name, "" if value == "(null)" else value.strip())

    def words(name: str) -> tuple[str, ...]:
        return tuple(word for word in values.get(name, "").split(",") if word)

    # "ctl1", or "ctl1(10.0.0.1)" where the address differs; the port may be a range, "6810-6817".
    hosts = [value.rstrip(")").split("(")[-1] for name, value in values.items() if name.startswith("SlurmctldHost[")]
    port = int(values.get("SlurmctldPort", "6817").partition("-")[0])
    lifetime = re.search(r"\bcred_expire=(\d+)", values.get("AuthInfo", ""))
    return ClusterConfig(
        cluster_name=values["ClusterName"],
        release=parse_release(values["SLURM_VERSION"]),
        slurmctld_places=tuple((host, port) for host in hosts),
        prolog_flags=frozenset(words("PrologFlags")),
        scheduler_parameters=words("SchedulerParameters"),
        slurmctld_parameters=words("SlurmctldParameters"),
        launch_parameters=words("LaunchParameters"),
        slurmd_timeout_s=int(values["SlurmdTimeout"].split()[0]),
        return_to_service=int(values["ReturnToService"]),
        select_type=values["SelectType"],
        mpi_default=values["MpiDefault"],
        kill_on_bad_exit=values["KillOnBadExit"] != "0",
        accounting_storage_type=values["AccountingStorageType"],
        job_requeue=values["JobRequeue"] != "0",
        credential_lifetime_s=int(lifetime[1]) if lifetime else 120,
    )


def parse_release(text: str) -> tuple[int, ...]:
    """The numbers of "22.05.8" or "slurm-wlm 25.11.0-rc1": (22, 5, 8), (25, 11, 0)."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(number) for number in found.groups() if number) if found else ()


def parse_time(text: str) -> int | None:
    """Seconds since the epoch of "2026-11-29T14:07:30" (UTC), None of Slurm's words for no time."""
    from datetime import datetime

    try:
        return int(datetime.fromisoformat(f"{text}+00:00").timestamp())
    except ValueError:
        return None


def cpus_per_node(cpus: Iterable[int]) -> str:
    """CPUs of each node in order, as SLURM_JOB_CPUS_PER_NODE has them: 4, 4, 4, 2 → "4(x3),2"."""
    runs: list[list[int]] = []
    for count in cpus:
        if runs and runs[-1][0] == count:
            runs[-1][1] += 1
        else:
            runs.append([count, 1])
    return ",".join(str(count) if times == 1 else f"{count}(x{times})" for count, times in runs)


def cpus_of_nodes(text: str) -> list[int]:
    """The reverse: "4(x3),2" → 4, 4, 4, 2."""
    return [int(count) for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text) for _ in range(int(times or 1))]


def _head(output: str) -> tuple[dict[str, str], str]:
    """The lines of Slurm's own above "Command=", by their beginning, and what --details adds between them."""
    lines = output.split("\n")
    keys = [found[1] if (found := _LINE.match(line)) else "" for line in lines]
    if keys.count("Command") != 1 or keys.count("JobId") != 1:
        raise Ambiguous("not exactly one job")
    del keys[keys.index("Command") :]
    head: dict[str, str] = {}
    for key, line in zip(keys, lines, strict=False):
        if key not in _REQUIRED and key not in _OPTIONAL:
            continue
        if key in head:
            raise Ambiguous(f"two lines begin with {key}=")
        head[key] = line
    missing = _REQUIRED - head.keys()
    if missing:
        raise Ambiguous(f"no line begins with {sorted(missing)[0]}=")
    end = keys.index("MinCPUsNode") if "MinCPUsNode" in keys else keys.index("Features")
    return head, "\n".join(lines[keys.index("Socks/Node") + 1 : end])


def _field(line: str, name: str) -> str:
    """The value of the last NAME= on the line, up to white space, "" for one of Slurm's words for nothing."""
    found = re.search(rf".*(?<!\S){name}=(\S*)", line)
    return "" if found is None or found[1] in _ABSENT else found[1]


def _exclusive(line: str) -> bool | None:
    """26.05 has a word of its own; there, OverSubscribe=NO is also a job that srun allocated for itself."""
    if own := _field(line, "Exclusive"):
        return {"NODE": True, "TOPO": True, "NO": False, "USER": False, "MCS": False}.get(own)
    return {"NO": True, "OK": False, "YES": False, "USER": False, "MCS": False}.get(_field(line, "OverSubscribe"))


def _has_gres(output: str, head: dict[str, str], details: str) -> bool:
    lines = [details, *(head.get(key, "") for key in ("TRES", "ReqTRES", "AllocTRES"))]
    if any(re.search(r"gres/|\bGRES=[^\s(]", line) for line in lines):
        return True
    # Below the owner's texts, so it may be forged, which hurts nobody else.
    return bool(re.search(r"^ {3}TresPer\w+=.*gres[:/]", output, re.MULTILINE))


def _cpus_per_node(requested: str, details: str, names: tuple[str, ...]) -> str:
    # With --hint=nomultithread or --threads-per-core the job counts less than the CPU_IDs that it holds.
    if not _field(requested, "ReqB:S:C:T").endswith(":*"):
        return ""
    cpus: dict[str, int] = {}
    for where, ids, _, _ in _SHARE.findall(details):
        cpus.update(dict.fromkeys(expand(where), _count(ids)))
    return cpus_per_node(cpus[name] for name in names) if names and cpus.keys() >= set(names) else ""


def _count(ids: str) -> int:
    """How many numbers "0-3,8" stands for."""
    spans = [span.partition("-") for span in ids.split(",") if span]
    return sum(int(high or low) - int(low) + 1 for low, _, high in spans)


def _requested_gres(allocated: str) -> str:
    """ "gpu:a100:2(IDX:0-1),shard:8(CNT:8)" → "gpu:a100:2,shard:8"; what has a count of 0 is nothing."""
    each = [word for word in re.sub(r"\([^)]*\)", "", allocated).split(",") if word not in _ABSENT]
    return ",".join(word for word in each if word and not word.endswith(":0"))


def _owners_text(output: str, key: str) -> str:
    found = re.search(rf"^ {{3}}{key}=(.*?) ?$", output[output.index("\n   Command=") :], re.MULTILINE)
    return "" if found is None or found[1] in _ABSENT else found[1]


def _node(record: str) -> Node:
    def field(name: str) -> str:
        found = re.search(rf"(?<!\S){name}=(\S*)", record)
        return "" if found is None or found[1] in _ABSENT else found[1]

    reason, user, time = _reason(record)
    comment = re.search(r"^ {3}Comment=(.*)$", record, re.MULTILINE)
    return Node(
        name=field("NodeName"),
        address=field("NodeAddr"),
        port=int(field("Port") or 6818),
        states=frozenset(field("State").upper().split("+")),
        reason=reason,
        boot_time=parse_time(field("BootTime")),
        slurmd_start_time=parse_time(field("SlurmdStartTime")),
        cpus=int(field("CPUTot") or 0),
        partitions=tuple(word for word in field("Partitions").split(",") if word),
        reason_user=user,
        reason_time=parse_time(time),
        comment=comment[1].strip() if comment else "",
        gres=field("Gres"),
    )


def _reason(record: str) -> tuple[str, str, str]:
    """A node's reason, who set it, and when; Slurm adds the latter two to its first line, as " [root@TIME]"."""
    found = re.search(r"^ {3}Reason=(.*?)(?=^ {3}\w+=|\Z)", record, re.MULTILINE | re.DOTALL)
    if found is None:
        return "", "", ""
    first, _, more = found[1].partition("\n")
    said = re.fullmatch(r"(.*?)(?: \[([^\s\]]+)@([^\s\]]+)\])?\s*", first)
    text, user, time = said.groups(default="") if said else (first, "", "")
    return " ".join(f"{text} {more}".split()), user, time


def _step(record: str) -> Step:
    def field(pattern: str) -> str:
        found = re.search(pattern, record, re.DOTALL)
        return "" if found is None or found[1] in _ABSENT else found[1]

    job_id, _, step_id = field(r"^StepId=(\S+)").partition(".")
    srun = re.findall(r"^ {3}SrunHost:Pid=(\S+):(\d+)", record, re.MULTILINE)
    return Step(
        job_id=job_id,
        id=step_id,
        name=field(r"\bTasks=\d+ Name=(.*) Network="),
        state=field(r"\n {3}State=(\S+)"),
        nodes=tuple(expand(field(r"\bNodeList=(\S*)"))),
        srun_host="" if not srun or srun[-1][0] in _ABSENT else srun[-1][0],
        srun_pid=int(srun[-1][1]) if srun else 0,
        num_tasks=int(field(r"\bTasks=(\d+) ") or 0),
    )
