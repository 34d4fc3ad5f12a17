# SPDX-License-Identifier: Apache-2.0
"""What Slurm's commands print with --json → records. Pure.

The layout changed between the data parsers of 22.05 (squeue and sinfo only; plain numbers, one word for a state) and
of 23.02 to 26.05 (scontrol too; numbers as {"set", "infinite", "number"}, states as lists). Both are read.
"""

from __future__ import annotations

from typing import Any

from stepguard.slurm.hostlist import expand
from stepguard.slurm.records import Job, Node
from stepguard.slurm.text import HAS_TIME_LEFT, cpus_per_node


def job(document: dict[str, Any], job_id: str, now_s: float) -> Job | None:
    """The job with this id, None where the document has no such job."""
    for record in document["jobs"]:
        if str(record["job_id"]) == job_id:
            return _job(record, now_s)
    return None


def nodes(document: dict[str, Any]) -> list[Node]:
    """All nodes of the document, in its order."""
    return [_node(record) for record in document["nodes"]]


def _job(record: dict[str, Any], now_s: float) -> Job:
    # Of several words the first is the base state, except that a job which still ends, or starts, is said to do so.
    states = _words(record["job_state"])
    state = next((word for word in ("COMPLETING", "CONFIGURING", "STOPPED") if word in states), states[0])
    names = tuple(expand(record["nodes"] or ""))
    # Without a time limit "end_time" is a year after the start (22.05 to 26.05).
    end_time = _number(record["end_time"]) if _number(record["time_limit"]) is not None or not names else None
    array_job_id = _number(record["array_job_id"])
    array_task_id = _number(record["array_task_id"])
    allocation = _allocation(record)
    return Job(
        id=str(record["job_id"]),
        user_id=int(record["user_id"]),
        state=state,
        reason=_text(record["state_description"]).replace(" ", "_") or _text(record["state_reason"]),
        partition=_text(record["partition"]),
        qos=_text(record["qos"]),
        account=_text(record["account"]),
        nodes=names,
        batch_host=_text(record["batch_host"]),
        is_batch=bool(record["batch_flag"]),
        requeue_allowed=bool(record["requeue"]),
        restart_count=int(record["restart_cnt"]),
        exclusive=_exclusive(record),
        has_gres=_has_gres(record),
        time_left_s=end_time - now_s if end_time and state in HAS_TIME_LEFT else None,
        end_time=end_time or None,
        num_cpus=_number(record["cpus"]) or 0,
        cpus_per_node=cpus_per_node(allocation[name] for name in names) if allocation.keys() >= set(names) else "",
        stepmgr="STEPMGR_ENABLED" in record.get("flags", []),
        het_job_id=str(_number(record["het_job_id"]) or ""),
        array_job_id=str(array_job_id or ""),
        array_task_id=_text(record["array_task_string"]) or ("" if array_task_id is None else str(array_task_id)),
        comment=_text(record["comment"]),
        reservation=_text(record["resv_name"]),
        features=_text(record["features"]),
        exit_code=_exit_code(record["exit_code"]),
    )


def _node(record: dict[str, Any]) -> Node:
    states = [*_words(record["state"]), *_words(record.get("state_flags", []))]
    return Node(
        name=record["name"],
        address=record["address"],
        port=_number(record["port"]) or 6818,
        states=frozenset(states),
        reason=" ".join(_text(record["reason"]).split()),
        boot_time=_number(record["boot_time"]) or None,
        slurmd_start_time=_number(record["slurmd_start_time"]) or None,
        cpus=int(record["cpus"]),
        partitions=tuple(record["partitions"]),
        reason_user=_text(record["reason_set_by_user"]) if record["reason"] else "",
        reason_time=(_number(record["reason_changed_at"]) or None) if record["reason"] else None,
        comment=_text(record["comment"]),
        gres=_text(record.get("gres")),
    )


def _number(value: Any) -> int | None:
    if isinstance(value, dict):
        return int(value["number"]) if value["set"] and not value["infinite"] else None
    return None if value is None else int(value)


def _words(value: Any) -> list[str]:
    return [str(word).upper() for word in (value if isinstance(value, list) else [value])]


def _text(value: Any) -> str:
    return "" if value in (None, "None", "N/A", "(null)") else str(value)


def _exclusive(record: dict[str, Any]) -> bool | None:
    """22.05: "shared" is "none". From 23.11 the job's resources say "whole"; "shared" says nothing in 26.05."""
    resources = record.get("job_resources") or {}
    allocated = resources.get("nodes")
    if isinstance(allocated, dict) and "whole" in allocated:
        return bool(allocated["whole"])
    shared = record.get("shared")
    if isinstance(shared, list):
        return True if shared == ["none"] else None
    return shared == "none"


def _has_gres(record: dict[str, Any]) -> bool:
    if record["gres_detail"]:
        return True
    keys = ("tres_alloc_str", "tres_req_str", "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task")
    return any("gres/" in (record[key] or "") or "gres:" in (record[key] or "") for key in keys)


def _allocation(record: dict[str, Any]) -> dict[str, int]:
    """CPUs by node; 22.05 does not say, and with --threads-per-core what is said is not what the job counts."""
    resources = record.get("job_resources") or {}
    allocated = resources.get("nodes")
    if not isinstance(allocated, dict) or _number(resources.get("threads_per_core")) is not None:
        return {}
    return {node["name"]: int(node["cpus"]["count"]) for node in allocated.get("allocation", [])}


def _exit_code(value: Any) -> str:
    if isinstance(value, dict):
        return f"{_number(value['return_code']) or 0}:{_number(value['signal']['id']) or 0}"
    return f"{value >> 8}:{value & 0x7F}"
