# SPDX-License-Identifier: Apache-2.0
"""Messages of an attempt become its record: right and ordered, whatever is missing and whatever the clock did."""

from __future__ import annotations

import inspect
import random
import re

import pytest

from stepguard.archive import job
from stepguard.archive.fold import Folded, fold
from stepguard.archive.steps import EXITS_MAX, STEPS_MAX
from stepguard.records.batch import FACTS, without_content
from stepguard.records.health import HealthChange, HealthEvent, HealthFinding, HealthRecord
from stepguard.records.manifest import Exit, Manifest, node_from, to_json
from unit.archive.spools import START_S, UID, Told, environment, whole_job


def folded(told: Told, over: bool = True) -> Folded:
    return fold(told.messages, told.key, "elsewhere", over)


def manifest_of(told: Told, over: bool = True) -> Manifest:
    manifest = folded(told, over).manifest
    assert manifest is not None
    return manifest


def missing(told: Told) -> dict[str, str]:
    return {one.what: one.why for one in manifest_of(told).missing}


def test_a_batch_job_has_all_that_was_told() -> None:
    manifest = manifest_of(whole_job())
    assert (manifest.kind, manifest.state, manifest.lead_node, manifest.nodes) == ("batch", "ended", "n1", ["n1", "n2"])
    assert (manifest.cluster, manifest.job_id, manifest.attempt, manifest.name) == ("lab", "12", 0, "train")
    assert (manifest.user, manifest.uid, manifest.partition, manifest.constraints) == ("alice", UID, "gpu", "")
    assert (manifest.exit_status, manifest.exit_signal, manifest.derived_exit_status) == (1, 0, 128 + 9)
    assert (manifest.start_s, manifest.end_s) == (START_S, START_S + 65)
    assert manifest.missing == []
    batch, step = manifest.steps
    assert (batch.step_id, batch.state, batch.exits) == ("batch", "ended", [Exit(0, 1, 0, START_S + 64.5)])
    assert (step.step_id, step.argv, step.start_s, step.end_s) == (
        "0",
        ["train", "--lr", "1"],
        START_S + 3,
        START_S + 64,
    )
    assert step.exits == [Exit(0, 0, 0, START_S + 63.5), Exit(1, 1, 0, START_S + 63.5)]
    assert (step.nodes, step.node_count, step.task_count, step.local_tasks) == ("n[1-2]", 2, 2, 1)


def test_a_batch_job_whose_script_and_environment_had_no_room_has_the_same_manifest() -> None:
    """All that is read of the job's environment is among the facts that are kept of it."""
    read = {*re.findall(r"\bSLURM_[A-Z0-9_]+\b", inspect.getsource(job)), *FACTS}
    variables = dict.fromkeys(read, "7") | {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_NAME": "caf\udce9\nx"}
    told = Told(array=(7, 7)).batch(**variables).output().step_end("batch", (0, 0))
    whole = manifest_of(told)
    assert (whole.name, whole.nodes, whole.printed_id) == ("caf\udce9\nx", ["n1", "n2"], "7_7")
    first = told.messages[0]
    told.messages[0] = first._replace(fields=without_content(first.fields))
    assert not {"script", "environment"} & told.messages[0].fields.keys()
    assert manifest_of(told) == whole


def test_a_fact_that_is_too_long_is_left_out_and_not_cut() -> None:
    kept = without_content({"kind": b"batch", "environment": b"SLURM_JOB_NODELIST=" + b"n1," * 2000 + b"n1\0HOME=/h\0"})
    assert (kept["facts"], kept["dropped"]) == (b"HOME=/h\0", b"environment")


def test_another_node_has_its_part_and_no_manifest() -> None:
    told = Told(node="n2").prolog().step_start(0, "train").step_end(0, (1, 9)).epilog()
    found = folded(told)
    assert found.manifest is None
    assert (found.node.node, found.node.state, found.node.gpus, found.node.boot_id) == ("n2", "ended", "0,1", "boot-1")
    assert found.node.steps[0].exits == [Exit(1, 0, 9, START_S + 1.5)]


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
def test_a_clock_that_is_set_neither_reorders_nor_stretches(step_s: float) -> None:
    told = Told().prolog().batch().step_start(0, "train")
    told.clock_s += step_s
    told.after(60).step_end(0, (0, 0)).step_end("batch", (0, 0)).epilog()
    manifest = manifest_of(told)
    assert (manifest.start_s, manifest.end_s) == (START_S, START_S + 64)
    assert [(step.step_id, step.end_s) for step in manifest.steps] == [("batch", START_S + 64), ("0", START_S + 63)]
    assert manifest.steps[1].exits[0].end_s == START_S + 62.5
    assert [(one.code, one.node) for one in folded(told).node.findings] == [("clock-set", "n1")]
    assert f"{step_s:+.1f} s" in folded(told).node.findings[0].text


def test_messages_that_arrive_late_are_put_where_they_belong() -> None:
    told = whole_job()
    expected = folded(told)
    for seed in range(20):
        shuffled = [message for message in told.messages if message.kind != "output"]
        random.Random(seed).shuffle(shuffled)
        found = fold(shuffled, told.key, "elsewhere", True)
        assert (found.node, found.manifest) == (expected.node, expected.manifest)


def test_what_the_job_itself_says_of_the_time_does_not_count() -> None:
    told = Told().prolog().batch()
    told.say("output", boot_id="forged", boottime_ns=1, time_ns=1, stdout="/x").step_end("batch", (0, 0)).epilog()
    assert (manifest_of(told).start_s, manifest_of(told).end_s) == (START_S, START_S + 3)
    assert (folded(told).node.findings, folded(told).node.boot_id) == ([], "boot-1")


def test_without_hooks_the_batch_step_is_the_job() -> None:
    told = Told(nodes="n1").batch().step_start(0, "train").step_end(0, (0, 0)).step_end("batch", (0, 15))
    manifest = manifest_of(told)
    assert (manifest.state, manifest.uid, manifest.lead_node, manifest.nodes) == ("ended", UID, "n1", ["n1"])
    assert (manifest.start_s, manifest.end_s) == (START_S, START_S + 3)
    assert (manifest.exit_status, manifest.exit_signal) == (0, 15)
    assert set(missing(told)) == {"prolog", "epilog"}


def test_an_epilog_without_a_prolog() -> None:
    told = Told(nodes="n1").epilog()
    manifest = manifest_of(told)
    assert (manifest.state, manifest.start_s, manifest.end_s) == ("ended", None, START_S)
    assert (manifest.exit_status, manifest.user) == (1, "alice")
    assert {"prolog", "start", "name, script, output and steps"} == set(missing(told))
    told = Told(nodes="n1").epilog(SLURM_JOB_START_TIME=str(START_S - 50))  # since 23.02
    assert manifest_of(told).start_s == START_S - 50


def test_of_two_prologs_the_first_began_the_job() -> None:
    told = Told(nodes="n1").prolog().prolog(SLURM_NODELIST="n9").epilog()
    manifest = manifest_of(told)
    assert (manifest.start_s, manifest.node_list, manifest.state) == (START_S, "n1", "ended")


def test_a_reboot_in_the_middle_loses_the_attempt() -> None:
    told = Told().prolog().batch().step_start(0, "train").after(100)
    told.boot_id, told.boottime_s = "boot-2", 5.0
    told.epilog()
    manifest = manifest_of(told)
    assert (manifest.state, manifest.start_s, manifest.end_s, manifest.exit_status) == ("lost", START_S, None, None)
    assert manifest.last_heard_s == START_S + 2, "the epilog says nothing of when it was lost"
    assert [step.state for step in manifest.steps] == ["lost", "lost"]
    assert missing(told)["end"] == "the node was started anew in the middle of it"
    assert "2 have not told theirs: batch, 0" in missing(told)["ends of steps"]


def test_a_clock_that_is_behind_after_a_reboot_does_not_go_back() -> None:
    told = Told(nodes="n1").prolog().step_start(0, "a").step_end(0, (0, 0))
    told.boot_id, told.boottime_s, told.clock_s = "boot-2", 5.0, 1000.0
    told.prolog().step_start(1, "b").step_end(1, (0, 0)).epilog()
    manifest = manifest_of(told)
    assert manifest.state == "ended"  # an allocation whose node came back
    starts = [step.start_s for step in manifest.steps]
    assert starts == [START_S + 1, START_S + 3]


def test_an_attempt_that_the_agent_closed_is_lost_and_says_why() -> None:
    told = Told().prolog().batch().say("closed", why="reboot")
    assert manifest_of(told).state == "lost"
    assert "started anew" in missing(told)["end"]
    told = Told().prolog().batch().step_end("batch", (0, 0)).say("closed", why="no-epilog")
    assert manifest_of(told).state == "ended"
    assert "epilog" in missing(told)


def test_a_running_attempt_has_no_end() -> None:
    told = Told().prolog().batch().step_start(0, "train")
    manifest = manifest_of(told, over=False)
    assert (manifest.state, manifest.end_s, manifest.steps[1].state) == ("running", None, "running")
    assert manifest.missing == []


def test_the_lead_without_a_script_is_the_first_node() -> None:
    for node, leads in (("n1", True), ("n2", False)):
        told = Told(node=node).prolog().step_start(0, "train").step_end(0, (0, 0)).epilog()
        assert (folded(told).manifest is not None) is leads
    assert manifest_of(Told(node="n1").prolog().epilog()).kind == "unknown"


def test_a_node_whose_prolog_names_but_itself_does_not_lead() -> None:
    """As slurmd does where a single step runs on a node that is not the job's first (22.05 to 26.05)."""

    def alone(count: int, **lists: str) -> Told:
        told = Told(node="n3", nodes="n3").prolog(SLURM_JOB_NUM_NODES=str(count))
        return told.step_start(0, "train", **{"step_node_list": "n3", **lists}).step_end(0, (0, 0))

    three = alone(3, job_node_list="n[1-3]")
    assert folded(three, over=False).manifest is None
    assert folded(three.epilog(SLURM_NODELIST="n[1-3]", SLURM_JOB_NUM_NODES="3")).manifest is None
    assert folded(alone(3, job_node_list="n3"), over=False).manifest is None, "its srun may know no more"
    assert folded(alone(3, job_node_list="n[7-9]"), over=False).manifest is None
    assert manifest_of(alone(1, job_node_list="n[1-3]"), over=False).nodes == ["n3"]
    assert manifest_of(alone(2, job_node_list="n[3-4]"), over=False).nodes == ["n3", "n4"]
    assert manifest_of(alone(2).epilog(SLURM_NODELIST="n[3-4]", SLURM_JOB_NUM_NODES="2")).nodes == ["n3", "n4"]


def test_a_node_that_left_before_its_prolog_does_not_lead() -> None:
    for nodes in ("", "(null)", "n[1-2]"):
        assert folded(Told(node="n3").epilog(SLURM_NODELIST=nodes)).manifest is None
    assert folded(Told(node="n3").epilog()).node.state == "ended"


def test_the_lead_with_a_script_is_where_it_ran() -> None:
    """`sbatch --batch` chooses a node by its features."""
    assert manifest_of(Told(node="n2").prolog().batch().epilog()).lead_node == "n2"


def test_ids_of_arrays_and_het_jobs() -> None:
    array = Told(job_id=15, array=(12, 0)).prolog().batch().epilog()
    assert manifest_of(array).printed_id == "12_0"
    het = Told(job_id=13, nodes="n1").prolog(SLURM_HET_JOB_ID="12").epilog()
    assert manifest_of(het).printed_id == "12+1"
    odd = Told(job_id=15).prolog().say("batch", array_job_id="../x", array_task_id=3)
    assert manifest_of(odd).printed_id == "15"


def test_an_environment_makes_no_job_a_part_of_another() -> None:
    """A user may set it, and a job that was submitted from within another inherits it."""
    variables = {"SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3", "SLURM_HET_JOB_ID": "15"}
    manifest = manifest_of(Told(job_id=15).prolog().batch(**variables).epilog())
    assert (manifest.printed_id, manifest.het_job_id) == ("15", "")
    own = manifest_of(Told(job_id=15, array=(14, 1)).prolog().batch(**variables).epilog())
    assert own.printed_id == "14_1"


def test_nobody_but_root_tells_the_owner_and_the_node() -> None:
    told = Told().say("output", uid=0, node="../../etc", stdout="/x").batch(SLURM_JOB_UID="0")
    assert (manifest_of(told).uid, folded(told).node.node) == (UID, "n1")
    nameless = Told(node="../../etc").prolog().epilog()
    assert folded(nameless).node.node == "elsewhere"
    assert "owner" in missing(Told().say("step_start", step_id=0, job_node_list="n1"))


def test_more_steps_than_are_kept() -> None:
    told = Told(nodes="n1").prolog()
    for number in range(STEPS_MAX + 10):
        told.step_start(number, "true").step_end(number, (0, 0))
    manifest = manifest_of(told.epilog())
    assert len(manifest.steps) == STEPS_MAX
    assert (manifest.steps[0].step_id, manifest.steps[-1].step_id) == ("0", str(STEPS_MAX + 9))
    assert f"of {STEPS_MAX + 10}" in missing(told)["steps"]


def test_of_too_many_exits_those_that_failed_stay() -> None:
    told = Told(nodes="n1").prolog()
    for number in range(EXITS_MAX // 4096 + 1):
        told.step_start(number, "true").step_end(number, *((rank, 256 * (rank == 7)) for rank in range(4096)))
    manifest = manifest_of(told.epilog())
    assert sum(len(step.exits) for step in manifest.steps) == EXITS_MAX
    assert all(step.exits_count == 4096 for step in manifest.steps)


@pytest.mark.parametrize("garbage", [b"", b"\0\0", b"x", b"1 2", b"-1 0 0\0", b"1 99999999999999999999999 0\0"])
def test_garbage_among_the_exits_is_left_out(garbage: bytes) -> None:
    told = Told(nodes="n1").step_start(0, "true").say("step_end", step_id=0, exits=b"0 9 5\0" + garbage)
    assert [(one.rank, one.signal) for one in folded(told).node.steps[0].exits] == [(0, 9)]


def test_nothing_that_a_message_holds_is_a_fault() -> None:
    """Messages are anybody's bytes by the time they are folded."""
    source = random.Random(4)
    kinds = ["prolog", "epilog", "batch", "output", "step_start", "step_end", "finding", "closed", "health_check", "x"]
    names = ["environment", "exits", "argv", "node", "boot_id", "time_ns", "boottime_ns", "step_id", "uid", "why"]
    names += ["step_node_list", "job_node_list", "exits_count", "argv_size", "stdout", "code", "text"]
    values = [b"", b"0", b"-5", b"9" * 20, b"n[1-3]", b"n[", b"SLURM_NODELIST=n[1-\0SLURM_JOB_UID=-1\0", b"\xff\0=\0"]
    values += [b"SLURM_JOB_EXIT_CODE2=999:999\0SLURM_JOB_DERIVED_EC=99999999999\0SLURM_JOB_START_TIME=99999999999\0"]
    for _ in range(3000):
        told = Told()
        for _ in range(source.randrange(6)):
            chosen = source.sample(names, source.randrange(len(names)))
            told.say(source.choice(kinds), **{name: source.choice(values) for name in chosen})
        found = folded(told, source.random() < 0.8)
        assert found.node.state in ("running", "ended", "lost")


def test_hooks_without_the_plugin_cannot_tell_what_ran() -> None:
    told = Told(nodes="n1").prolog().epilog(SLURM_JOB_EXIT_CODE="0", SLURM_JOB_EXIT_CODE2="0:0")
    assert manifest_of(told).kind == "unknown"
    (lacks,) = missing(told).items()
    assert lacks[0] == "name, script, output and steps"
    assert "plugstack.conf does not load the plugin" in lacks[1]
    running = manifest_of(Told(nodes="n1").prolog(), over=False)
    assert [one.what for one in running.missing] == ["name"]
    interactive = manifest_of(Told(nodes="n1").prolog().step_start(0, "a").step_end(0, (0, 0)).epilog())
    assert (interactive.kind, [one.what for one in interactive.missing]) == ("interactive", ["name"])


def test_a_step_of_several_parts_of_a_het_job_has_the_nodes_of_its_own_part() -> None:
    told = Told(job_id=13, node="n2", nodes="n[2-3]").prolog(SLURM_HET_JOB_ID="12")
    told.step_start(0, "train", step_node_list="n[1-4]", node_count=2).step_end(0, (0, 0)).epilog()
    manifest = manifest_of(told)
    assert (manifest.node_list, manifest.steps[0].nodes, manifest.printed_id) == ("n[2-3]", "n[2-3]", "12+1")


@pytest.mark.parametrize("hooks", [True, False])
def test_a_part_of_one_node_leads_itself_whatever_a_step_of_several_parts_names(hooks: bool) -> None:
    for part, node in enumerate(("n1", "n2", "n3")):
        told = Told(job_id=12 + part, node=node, nodes=node)
        told = told.prolog(SLURM_HET_JOB_ID="12") if hooks else told
        told.step_start(0, "train", step_node_list="n[1-3]", job_node_list="n[1-3]", node_count=1)
        assert manifest_of(told, over=False).nodes == [node]
        told.step_end(0, (0, 0))
        manifest = manifest_of(told.epilog(SLURM_HET_JOB_ID="12") if hooks else told)
        assert (manifest.node_list, manifest.nodes, manifest.lead_node) == (node, [node], node)
        assert (manifest.steps[0].nodes, manifest.printed_id) == (node, f"12+{part}" if hooks else str(12 + part))


def test_of_a_part_of_two_nodes_the_first_leads() -> None:
    for node, leads in (("n2", True), ("n3", False)):
        told = Told(job_id=13, node=node, nodes="n[2-3]").prolog(SLURM_HET_JOB_ID="12")
        told.step_start(0, "train", step_node_list="n[1-3]", job_node_list="n[1-3]", node_count=2)
        assert (folded(told.step_end(0, (0, 0)).epilog()).manifest is not None) is leads


def test_the_nodes_that_left_a_job_do_not_lead_it() -> None:
    """slurmd names those that left together to their epilogs, and how many the job had."""
    for node in ("n2", "n4"):
        told = Told(node=node).epilog(SLURM_NODELIST="n[2,4]", SLURM_JOB_NUM_NODES="4")
        assert folded(told).manifest is None


def test_the_exit_that_slurm_sets_where_nothing_had_one() -> None:
    """srun ends a job whose step cannot be created with 1, which slurmd decodes as a signal (22.05 to 26.05)."""
    codes = {"SLURM_JOB_EXIT_CODE": "1", "SLURM_JOB_EXIT_CODE2": "0:1", "SLURM_JOB_DERIVED_EC": "4294967294"}
    failed = manifest_of(Told(nodes="n1").epilog(**codes))
    assert (failed.exit_status, failed.exit_signal, failed.derived_exit_status) == (1, 0, None)
    well = Told(nodes="n1").prolog().step_start(0, "a").step_end(0, (0, 0)).epilog(**codes)
    assert (manifest_of(well).exit_status, manifest_of(well).exit_signal) == (1, 0)
    hung_up = Told(nodes="n1").prolog().step_start(0, "a").step_end(0, (0, 1)).epilog(**codes)
    assert (manifest_of(hung_up).exit_status, manifest_of(hung_up).exit_signal) == (0, 1)
    batch = Told(nodes="n1").prolog().batch().step_end("batch", (0, 1)).epilog(**codes)
    assert (manifest_of(batch).exit_status, manifest_of(batch).exit_signal) == (0, 1)


def test_a_slow_epilog_is_no_part_of_the_job() -> None:
    batch = Told(nodes="n1").prolog().batch().step_end("batch", (0, 0)).after(8).epilog()
    assert (manifest_of(batch).end_s, folded(batch).node.end_s) == (START_S + 2, START_S + 11)
    step = Told(nodes="n1").prolog().step_start(0, "a").step_end(0, (0, 0)).after(8)
    ends = {"": 11, str(START_S + 5): 5, str(START_S): 2, str(START_S + 99): 11}
    for told_s, end_s in ends.items():  # by Slurm's word, except where its clock is another than the node's
        one = Told(nodes="n1", messages=list(step.messages), clock_s=step.clock_s, boottime_s=step.boottime_s)
        assert manifest_of(one.epilog(SLURM_JOB_END_TIME=told_s)).end_s == START_S + end_s


def test_the_name_of_a_job_whose_script_came_on_stdin() -> None:
    def named(**variables: str) -> Told:
        told = Told(nodes="n1").say("batch", step_id="batch", environment=environment(variables))
        return told.step_end("batch", (0, 0))

    assert manifest_of(named(SLURM_SUBMIT_HOST="login")).name == "sbatch"
    assert manifest_of(named(SLURM_SUBMIT_HOST="login", SLURM_JOB_NAME="")).name == ""
    assert "name" not in missing(named(SLURM_SUBMIT_HOST="login", SLURM_JOB_NAME=""))
    of_another_client = named(HOME="/home/alice")
    assert (manifest_of(of_another_client).name, "name" in missing(of_another_client)) == ("", True)
    cut = named(SLURM_SUBMIT_HOST="login")
    cut.messages[0] = cut.messages[0]._replace(fields={**cut.messages[0].fields, "environment_size": b"1500000"})
    assert (manifest_of(cut).name, "name" in missing(cut)) == ("", True)


def test_what_became_of_the_devices_is_the_nodes_and_among_the_findings() -> None:
    health = HealthRecord(
        "fail",
        "replace",
        ["GPU-1"],
        60.0,
        [HealthChange("moved", "GPU-1", "ecc.volatile_uncorrected", "0", "2", 2, "fail")],
        [HealthFinding("ok", "GPU-1", "fine")],
        [HealthEvent("xid", "79", "0000:0f:00", "hardware-replace", "replace", "fail", first_s=START_S + 5)],
    )
    told = whole_job().say("job_health", record=to_json(health))
    part = folded(told).node
    assert part.health == health
    assert [(one.code, one.time_s, one.node, one.about) for one in part.findings] == [
        ("gpu-event", START_S + 5, "n1", "0000:0f:00"),
        ("device-change", None, "n1", "GPU-1"),
    ]
    assert node_from(to_json(part)) == part
    assert folded(whole_job()).node.health is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"status":7}', '{"status":"ok","events":[{}]}', "9" * 5000])
def test_what_the_agent_told_of_devices_and_cannot_be_read(text: str) -> None:
    health = folded(whole_job().say("job_health", record=text)).node.health
    assert health is not None
    assert health.status == "unknown"
    assert health.why.startswith("what the agent told cannot be read: ")
