# SPDX-License-Identifier: Apache-2.0
"""Every form of the Slurm client keeps the protocol's promises, on a real cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from asking import Client, has_pyslurm, share_package
from guarded import until
from lab.cluster import Cluster
from stepguard.errors import SlurmRefused, SlurmUnreachable

pytestmark = [pytest.mark.live, pytest.mark.timeout(150)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {
        "SchedulerParameters": "permit_job_expansion,bf_interval=1,sched_interval=1",
        "AuthInfo": "cred_expire=5",
    }
    with Cluster(nodes=4, gpus_per_node=2, slurm_conf=settings) as cluster:
        share_package(cluster)
        yield cluster


@pytest.fixture(params=["text", "json", "pyslurm"])
def client(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Client]:
    if request.param == "pyslurm" and not has_pyslurm(cluster):
        pytest.skip("pyslurm does not import on the hosts")
    yield Client(cluster, request.param)
    cluster.run(["scancel", "--user=alice"], user="root")
    cluster.wait_idle()


def submit(client: Client, body: str, *options: str) -> str:
    """A batch job of alice's that runs by now; the directory it runs in is her home."""
    script = client.lab.write("job.sh", f"#!/bin/bash\n{body}\n", mode=0o755)
    argv = ["sbatch", "--parsable", "--output=out.%j", *options, str(script)]
    job_id = client.lab.run(argv).stdout.strip()
    until("the job runs", lambda: "R" in squeue(client, job_id), 20)
    return job_id


def squeue(client: Client, job_id: str, fields: str = "%t") -> list[str]:
    query = ["squeue", "--noheader", "--array", f"--jobs={job_id}", f"--format={fields}"]
    return client.lab.run(query, check=False).stdout.split()


def step_runs(client: Client, job_id: str, step_id: str = "0") -> None:
    until("the step runs", lambda: step_id in [step.id for step in client.steps(job_id)], 20)


def allocate(client: Client, *options: str) -> str:
    """An allocation without a shell."""
    granted = client.lab.run(["salloc", "--no-shell", *options]).stderr
    return granted.split("Granted job allocation ")[1].split()[0]


def test_batch_job(client: Client) -> None:
    options = ["-N3", "-n5", "--exclusive", "--gres=gpu:2", "--time=10", "--comment=two words"]
    job_id = submit(client, "env > job.env; sleep 300", *options)
    job = client.job(job_id)
    assert (job.id, job.state, job.reason, job.partition) == (job_id, "RUNNING", "", "main")
    assert (job.user_id, job.is_batch, job.batch_host) == (client.lab.home().stat().st_uid, True, "n1")
    assert (job.nodes, job.num_cpus) == (("n1", "n2", "n3"), 24)
    assert (job.exclusive, job.has_gres, job.requeue_allowed, job.restart_count) == (True, True, True, 0)
    assert (job.comment, job.stepmgr, job.het_job_id, job.array_job_id) == ("two words", False, "", "")
    assert 570 < job.time_left_s <= 600
    assert job.end_time is not None
    assert abs(job.end_time - time.time() - job.time_left_s) < 5
    if job.cpus_per_node or client.form != "json":
        environment = (client.lab.home() / "job.env").read_text().splitlines()
        assert f"SLURM_JOB_CPUS_PER_NODE={job.cpus_per_node}" in environment


def test_uneven_job_without_gres(client: Client) -> None:
    job_id = submit(client, "env > job.env; sleep 300", "-N3", "-n5", "--no-requeue")
    job = client.job(job_id)
    assert (job.has_gres, job.requeue_allowed) == (False, False)
    # With accounting, Slurm makes a year of no limit.
    assert job.time_left_s is None or job.time_left_s > 364 * 86400
    assert job.exclusive is not True
    if job.cpus_per_node:
        environment = (client.lab.home() / "job.env").read_text().splitlines()
        assert f"SLURM_JOB_CPUS_PER_NODE={job.cpus_per_node}" in environment


def test_allocation_owns_the_gres_of_its_exclusive_nodes(client: Client) -> None:
    job = client.job(allocate(client, "-N2", "--exclusive"))
    assert (job.is_batch, job.exclusive, job.has_gres) == (False, True, True)


def test_unknown_job(client: Client) -> None:
    with pytest.raises(SlurmRefused, match="Invalid job id"):
        client.job("99999")
    assert client.steps("99999") == []
    client.cancel_job("99999")
    client.cancel_step("99999", "0")


def test_steps(client: Client) -> None:
    job_id = submit(client, "srun -N2 -n4 --job-name='a b' sleep 300", "-N3", "--exclusive")
    step_runs(client, job_id)
    steps = {step.id: step for step in client.steps(job_id)}
    assert set(steps) - {"extern"} == {"batch", "0"}
    assert (steps["batch"].nodes, steps["batch"].srun_pid) == (("n1",), 0)
    step = steps["0"]
    assert (step.job_id, step.name, step.state, step.nodes) == (job_id, "a b", "RUNNING", ("n1", "n2"))
    assert (step.num_tasks, step.srun_host) == (4, "n1")
    pids = client.lab.run(["pgrep", "-x", "srun"], host="n1", user="root").stdout.split()
    assert str(step.srun_pid) in pids


def test_nodes(client: Client) -> None:
    client.lab.run(["scontrol", "update", "NodeName=n3", "State=FAIL", "Reason=Action:Replace now"], user="root")
    try:
        n3, n1 = client.nodes(["n3", "n1", "n3"])
        assert n1.gres == "gpu:2"
    finally:
        client.lab.run(["scontrol", "update", "NodeName=n3", "State=RESUME"], user="root")
    assert (n3.name, n3.reason, n1.name, n1.reason) == ("n3", "Action:Replace now", "n1", "")
    assert n3.states == {"IDLE", "FAIL"}
    assert n1.states == {"IDLE"}
    assert (n1.port, n1.cpus) == (6818, 8)
    assert n1.slurmd_start_time is not None
    assert abs(n1.slurmd_start_time - time.time()) < 300
    assert n1.address != n3.address
    assert client.nodes([]) == []
    with pytest.raises(SlurmRefused, match="n9"):
        client.nodes(["n1", "n9"])


def test_nodes_are_changed_by_administrators_alone(client: Client) -> None:
    root = Client(client.lab, client.form, user="root")
    before = time.time()
    try:
        root.update_nodes(["n3", "n4"], "FAIL", "Action:Replace", "stepguard: xid 79, two words")
        n1, n3, n4 = (node for node in client.all_nodes() if node.name != "n2")
        assert (n1.name, n1.reason, n1.reason_user, n1.reason_time, n1.comment) == ("n1", "", "", None, "")
        assert n1.partitions == ("main", "low")
        for node in (n3, n4):
            assert (node.states, node.reason, node.reason_user) == ({"IDLE", "FAIL"}, "Action:Replace", "root")
            assert node.comment == "stepguard: xid 79, two words"
            assert before - 1 <= node.reason_time <= time.time()
        with pytest.raises(SlurmRefused, match="Invalid user id"):
            client.update_nodes(["n1"], "FAIL", "Action:Replace")
        root.update_nodes(["n3"], "DRAIN", "stepguard: [bob@x] why")
        assert client.nodes(["n3"])[0].reason == "stepguard: [bob@x] why"
    finally:
        root.update_nodes(["n3", "n4"], "RESUME", None, "")
    assert {(node.reason, node.comment) for node in client.all_nodes()} == {("", "")}
    client.lab.wait_idle()  # a second later, for slurmctld asks a node that was drained whether it is there
    with pytest.raises(SlurmRefused, match="Invalid node state"):
        root.update_nodes(["n3"], "RESUME")
    with pytest.raises(SlurmRefused, match="Invalid node name"):
        root.update_nodes(["n9"], "DRAIN", "why")
    root.update_nodes([], "FAIL", "Action:Replace")


def test_config(client: Client) -> None:
    config = client.config()
    assert config.release[:2] == client.lab.release.number
    assert "permit_job_expansion" in config.scheduler_parameters
    assert (config.slurmd_timeout_s, config.credential_lifetime_s) == (300, 5)
    assert client.controller_answers() is True


def test_shrink_leaves_no_file_behind(client: Client) -> None:
    job_id = submit(client, "sleep 300", "-N3", "--exclusive", "--gres=gpu:2")
    inside = {"SLURM_JOB_ID": job_id, "SLURM_JOBID": job_id}
    Client(client.lab, client.form, environment=inside).keep_nodes(job_id, ["n1", "n3"])
    job = client.job(job_id)
    assert (job.nodes, job.state) == (("n1", "n3"), "RUNNING")
    for directory in (client.lab.home(), client.lab.root("login"), client.lab.root("login") / "tmp"):
        assert not list(directory.glob("slurm_job_*"))
    with pytest.raises(SlurmRefused):
        client.keep_nodes(job_id, ["n3"])
    with pytest.raises(SlurmRefused):
        Client(client.lab, client.form, user="bob").keep_nodes(job_id, ["n1"])


def test_merge(client: Client) -> None:
    target = submit(client, "sleep 300", "-N2")
    before = client.job(target).nodes
    helper = allocate(client, "-N1", f"--exclude={','.join(before)}", f"--dependency=expand:{target}")
    added = client.job(helper).nodes
    client.merge_into(helper)
    assert client.job(target).nodes == tuple(sorted(before + added))
    until("the helper ends", lambda: client.job(helper).state not in ("RUNNING", "COMPLETING"), 10)


def test_end_of_a_step_and_its_account(client: Client) -> None:
    body = "srun -N1 true; srun -N1 false; srun -N1 sleep 300; sleep 300"
    job_id = submit(client, body, "-N2")
    step_runs(client, job_id, "2")
    client.cancel_step(job_id, "2", "KILL")
    until("the step ends", lambda: "2" not in [step.id for step in client.steps(job_id)], 20)
    client.cancel_step(job_id, "2")
    ended = {"0": "COMPLETED", "1": "FAILED", "2": "CANCELLED"}
    known: dict[str, str] = {}

    def accounting_agrees() -> bool:
        known.update({step_id: client.step_accounting(job_id, step_id) for step_id in ended})
        return known == ended

    until(f"accounting has {ended}, not {known}", accounting_agrees, 20)
    assert client.step_accounting(job_id, "7") is None
    client.cancel_job(job_id)
    until("the job ends", lambda: client.job(job_id).state == "CANCELLED", 20)
    assert client.job(job_id).time_left_s is None


def test_jobs_by_name(client: Client) -> None:
    uid = str(client.lab.home().stat().st_uid)
    first = submit(client, "sleep 300", "-N1", "-n1", "--job-name=stepguard-expand-71")
    second = allocate(client, "-N1", "-n1", "--job-name=stepguard-expand-71")
    allocate(client, "-N1", "-n1", "--job-name=stepguard-expand-711")
    assert client.jobs_named("stepguard-expand-71", "alice") == [first, second]
    assert client.jobs_named("stepguard-expand-71", uid) == [first, second]
    assert client.jobs_named("stepguard-expand-71", "bob") == []


@pytest.mark.parametrize("client", ["text"], indirect=True)
def test_requeue_without_a_node(client: Client) -> None:
    job_id = submit(client, "sleep 300", "-N2", "--exclusive")
    bad = client.job(job_id).nodes[0]
    client.requeue(job_id)
    until("the job waits", lambda: client.job(job_id).state == "PENDING", 20)
    client.exclude_nodes(job_id, [bad])
    until("the job runs again", lambda: client.job(job_id).state == "RUNNING", 60)
    job = client.job(job_id)
    assert (bad in job.nodes, len(job.nodes), job.restart_count) == (False, 2, 1)
    with pytest.raises(SlurmRefused):
        client.requeue(allocate(client, "-N1"))


def test_last_task_of_an_array_has_the_id_of_all(client: Client) -> None:
    array = submit(client, "srun sleep 300", "-N1", "-n1", "--array=1-2")
    until("both run", lambda: squeue(client, array) == ["R", "R"], 20)
    rows = squeue(client, array, "%A %i")
    addresses = dict(zip(rows[::2], rows[1::2], strict=True))
    other = next(job_id for job_id in addresses if job_id != array)
    for job_id in (array, other):
        job = client.job(job_id)
        assert (job.id, f"{job.array_job_id}_{job.array_task_id}") == (job_id, addresses[job_id])
        step_runs(client, job_id)
        assert len([step for step in client.steps(job_id) if step.id == "0"]) == 1
    client.cancel_step(array, "0")
    until("its step ends", lambda: "0" not in [step.id for step in client.steps(array)], 20)
    step_runs(client, other)
    client.cancel_job(array)
    until("it ends", lambda: client.job(array).state != "RUNNING", 20)
    assert client.job(other).state == "RUNNING"


FORGED = (
    "x\n   UserId=root(0) GroupId=root(0) MCS_label=N/A\n   JobState=COMPLETED Reason=None Dependency=(null)"
    "\n   Requeue=1 Restarts=9 BatchFlag=1 Reboot=0 ExitCode=0:0\n   NodeList=n4\n   Command=x"
)


@pytest.mark.parametrize("field", ["--job-name", "--comment", "--wckey"])
def test_texts_of_the_owner_do_not_deceive(client: Client, field: str) -> None:
    job_id = submit(client, "sleep 300", "-N1", "-n1", f"{field}={FORGED}")
    try:
        job = client.job(job_id)
    except SlurmRefused as error:
        assert client.form != "json"
        assert "imitate" in str(error)
    else:
        assert job.user_id == client.lab.home().stat().st_uid
        assert (job.state, job.nodes, job.restart_count) == ("RUNNING", ("n1",), 0)


@pytest.mark.parametrize("client", ["text"], indirect=True)
def test_controller_is_away(client: Client) -> None:
    impatient = Client(client.lab, client.form, timeout_s=5)
    client.lab.stop_controller()
    try:
        with pytest.raises(SlurmUnreachable):
            impatient.job("1")
        with pytest.raises(SlurmUnreachable):
            impatient.nodes(["n1"])
        assert impatient.controller_answers() is False
    finally:
        client.lab.start_controller()
    assert client.controller_answers() is True
