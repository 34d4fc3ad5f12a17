# SPDX-License-Identifier: Apache-2.0
"""Nobody reads another's record, makes root read or write what they may not, or stops the agent."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from guarded import until
from lab.cluster import Cluster
from recorded import Record, record_of, recording_lab, submit

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

SECRET = "the secret of bob"
# A client without manners. What it says on stdout is what the agent answered, or EOF.
CLIENT = """
import os, resource, socket, struct, sys, time
def connect():
    channel = socket.socket(socket.AF_UNIX)
    channel.settimeout(20)
    channel.connect("/run/stepguard/agent.sock")
    return channel
def message(**fields):
    body = b"".join(bytes([len(n)]) + n.encode() + struct.pack("<I", len(v)) + v for n, v in fields.items())
    return b"SGR1" + struct.pack("<I", len(body)) + body
def ask(content):
    channel = connect()
    try:
        channel.sendall(content)
        return channel.recv(65536)
    except (BrokenPipeError, ConnectionResetError):
        return b"EOF"
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    with recording_lab(1, slurm_conf={"SchedulerParameters": "sched_min_interval=100000"}) as cluster:
        yield cluster
        cluster.wait_idle()


def client(lab: Cluster, program: str, user: str = "alice", timeout_s: float = 120) -> str:
    """What a program on n1 that knows CLIENT prints."""
    return lab.run(["/usr/bin/python3", "-c", CLIENT + program], host="n1", user=user, timeout_s=timeout_s).stdout


def assert_agent_serves(lab: Cluster) -> None:
    """The same agent as ever records a job, and Slurm waits for nobody."""
    agent = lab.agents.running("n1")
    began_s = time.monotonic()
    lab.run(["srun", "-w", "n1", "true"])
    assert time.monotonic() - began_s < 5
    assert record_of(lab, submit(lab, "echo served")).output() == b"served\n"
    assert agent.status is None


def bytes_of(record: Record) -> bytes:
    """All that is in a record, outputs unpacked."""
    names = [name for name in ("stdout", "stderr") if (record.path / f"{name}.zst").exists()]
    files = [path.read_bytes() for path in record.path.rglob("*") if path.is_file() and path.suffix != ".zst"]
    return b"".join([*files, *(record.output(name) for name in names)])


# The job's output becomes, before its end, a way to a file that alice may not read.
TRICKS = [
    "ln -sf TARGET OUT",
    "ln -sf ../bob/secret OUT",
    "ln -sf TARGET OUT.link; ln -sf OUT.link OUT",
    "rm OUT; mkdir dir-$SLURM_JOB_ID; ln -s TARGET dir-$SLURM_JOB_ID/x; ln -s dir-$SLURM_JOB_ID/x OUT",
    "ln -sf /etc/shadow OUT",
    "ln -sf /proc/1/environ OUT",
    "ln -sf /var/spool/stepguard/fingerprint.key OUT",
]


@pytest.mark.parametrize("trick", TRICKS, ids=range(len(TRICKS)))
def test_root_does_not_follow_an_output_that_became_a_link(lab: Cluster, trick: str) -> None:
    lab.write("secret", SECRET, user="bob", mode=0o600)
    out = f"{lab.home()}/trick.out"
    job_id = submit(lab, trick.replace("OUT", out).replace("TARGET", f"{lab.home('bob')}/secret"), "-o", out)
    record = record_of(lab, job_id)
    assert SECRET.encode() not in bytes_of(record)
    assert record.manifest.files["stdout"].what in ("link", "unreadable")
    assert not (record.path / "stdout.zst").exists()
    lab.run(["rm", "-rf", out])


def test_no_race_of_names_makes_root_follow_a_link(lab: Cluster) -> None:
    """While the output is read it is exchanged for links, as quickly as a program can."""
    lab.write("secret", SECRET, user="bob", mode=0o600)
    out = f"{lab.home()}/race.out"
    lab.run(["sh", "-c", f"echo mine > {out}.mine; ln -s {lab.home('bob')}/secret {out}.link"])
    program = f"""
import os, itertools
for number in itertools.count():
    os.link("{out}.mine", "{out}.new")
    os.rename("{out}.new", "{out}")
    os.symlink("{lab.home("bob")}/secret", "{out}.new")
    os.rename("{out}.new", "{out}")
"""
    racer = lab.start(["/usr/bin/python3", "-c", program])
    try:
        for _ in range(10):
            record = record_of(lab, submit(lab, "echo mine", f"--output={lab.home()}/%j.out; true", "-o", out))
            assert SECRET.encode() not in bytes_of(record)
    finally:
        racer.kill()


def test_a_hard_link_to_a_file_of_root_is_not_read(lab: Cluster) -> None:
    """As where fs.protected_hardlinks is off: root itself makes the link in alice's home."""
    target, out = lab.shared / "root-only", lab.home() / "hard.out"
    lab.write(target, SECRET, user="root", mode=0o600)
    job_id = submit(lab, f"rm {out}; touch {out}.ready; sleep 2", "-o", str(out))
    until("the job is ready", lambda: out.with_name("hard.out.ready").exists(), 20)
    out.hardlink_to(target)
    record = record_of(lab, job_id)
    assert SECRET.encode() not in bytes_of(record)
    assert record.manifest.files["stdout"].what == "unreadable"


def test_bob_reads_nothing_of_alices_record_and_lists_nothing(lab: Cluster) -> None:
    job_id = submit(lab, "echo private")
    record = record_of(lab, job_id)
    shown = lab.run(["/opt/stepguard/bin/stepguard", "job", job_id], host="n1").stdout
    assert "private" in shown
    other = lab.run(["/opt/stepguard/bin/stepguard", "job", job_id], host="n1", user="bob", check=False)
    assert other.status != 0
    assert "private" not in other.stdout + other.stderr
    for path in (record.path / "manifest.json", record.path / "nodes" / "n1.json", record.path / "stdout.zst"):
        assert lab.run(["cat", str(path)], user="bob", check=False).status == 1
    owner = lab.home().stat().st_uid
    for path in (lab.archive, lab.archive / "lab" / "scripts", lab.archive / "lab" / "index" / str(owner)):
        assert lab.run(["ls", str(path)], user="bob", check=False).status == 2
    for spool in ("/var/spool/stepguard", "/var/spool/stepguard/jobs"):
        assert lab.run(["ls", spool], host="n1", check=False).status == 2


def test_alice_can_put_nothing_in_the_way_of_her_index_and_no_line_of_hers_stops_anybody(lab: Cluster) -> None:
    stepguard = "/opt/stepguard/bin/stepguard"
    record_of(lab, submit(lab, "true"))
    index = lab.archive / "lab/index" / str(lab.home().stat().st_uid)
    for words in (["mkdir", f"{index}/n2.tsv"], ["rm", "-f", f"{index}/n1.tsv"], ["chmod", "0", str(index)]):
        assert lab.run(words, check=False).status == 1, words
    spoil = f"chmod u+w {index}/n1.tsv {index}/nodes; sed 's/\\t[0-9.]*\\t/\\tnan\\t/' "
    lab.run(["sh", "-c", f"{spoil} {index}/n1.tsv >lines; cat lines >{index}/n1.tsv; echo ../../etc >{index}/nodes"])
    listed = lab.run([stepguard, "jobs", "--all"], host="n1", user="root")
    assert "are not as stepguard writes them" in listed.stderr
    job_id = submit(lab, "true")
    record_of(lab, job_id)
    rebuilt = lab.run([stepguard, "archive", "rebuild-index"], host="n1", user="root")
    assert "records are in the index" in rebuilt.stdout
    for user in ("alice", "root"):
        listed = lab.run([stepguard, "jobs", "--all", "--limit", "0"], host="n1", user=user)
        known = {line.split()[0] for line in listed.stdout.splitlines()[1:]}
        assert {job_id, str(int(job_id) - 1)} <= known


FORGED = [
    ("kind=b'prolog', job_id=b'7', environment=b'SLURM_JOB_ID=7'", "refused"),
    ("kind=b'epilog', job_id=@ID@", "refused"),
    ("kind=b'batch', job_id=@ID@, script=b'#!/bin/sh forged', environment=b''", "refused"),
    ("kind=b'step_end', job_id=@ID@, step_id=b'batch', exits=b'0 0 1'", "refused"),
    ("kind=b'finding', job_id=@ID@, code=b'x', text=b'forged'", "refused"),
    ("kind=b'closed', job_id=@ID@, why=b'forged'", "refused"),
    ("kind=b'output', job_id=@ID@, step_id=b'batch', stdout=b'/etc/shadow', stdout_id=b'1:1:reg'", "refused"),
    ("kind=b'verdict', job_id=@ID@", "refused"),
    ("kind=b'nonsense'", "refused"),
    ("job_id=b'1'", "refused"),
]


@pytest.mark.parametrize(("fields", "answer"), FORGED, ids=range(len(FORGED)))
def test_a_forged_message_about_anothers_job_is_refused(lab: Cluster, fields: str, answer: str) -> None:
    job_id = submit(lab, "touch forged.$SLURM_JOB_ID; sleep 3; echo true", "-o", "forged.out")
    until("it runs", (lab.home() / f"forged.{job_id}").exists, 20)
    said = client(lab, f"print(ask(message({fields.replace('@ID@', repr(job_id.encode()))})).decode())", user="bob")
    assert said.startswith(answer)
    record = record_of(lab, job_id)
    assert record.output() == b"true\n"
    assert b"forged'" not in bytes_of(record)
    assert record.lines("findings.jsonl") == []


def test_what_the_owner_forges_is_read_as_the_owner(lab: Cluster) -> None:
    """A job may say that its output is any file: it is read with alice's rights alone."""
    lab.write("secret", SECRET, user="bob", mode=0o600)
    program = (
        CLIENT
        + f"""
job = os.environ["SLURM_JOB_ID"].encode()
for path in (b"/etc/shadow", b"{lab.home("bob")}/secret", b"/var/spool/stepguard/fingerprint.key", b"/dev/zero"):
    print(ask(message(kind=b"output", job_id=job, step_id=b"batch", stdout=path, stderr=path,
                      stdout_id=b"0:0:reg", stderr_id=b"0:0:reg")))
"""
    )
    lab.write("forge.py", program)
    record = record_of(lab, submit(lab, f"/usr/bin/python3 {lab.home()}/forge.py"))
    assert SECRET.encode() not in bytes_of(record)
    assert b"root:" not in bytes_of(record)


def test_garbage_slow_writers_and_floods_do_not_stop_the_agent(lab: Cluster) -> None:
    client(
        lab,
        """
http, huge = b"GET / HTTP/1.1\\r\\n\\r\\n", b"SGR1" + b"\\xff" * 4
for _ in range(50):
    for content in (huge, http, os.urandom(100000), b"SGR1" + bytes(4)):
        ask(content)
for content in (b"", b"x", b"SGR1"):  # of these more could come, so they are waited for
    ask(content)
""",
        user="bob",
    )
    assert_agent_serves(lab)
    slow = lab.start(
        [
            "/usr/bin/python3",
            "-c",
            CLIENT
            + """
channels = [connect() for _ in range(60)]
print("slow", flush=True)
for byte in message(kind=b"status") * 1000:
    for channel in channels:
        try:
            channel.send(bytes([byte]))
        except OSError:
            pass
    time.sleep(0.2)
""",
        ],
        host="n1",
        user="bob",
    )
    slow.wait_output("slow", 20)
    assert_agent_serves(lab)
    slow.kill()


def test_ten_thousand_connections_do_not_stop_the_agent(lab: Cluster) -> None:
    flood = lab.start(
        [
            "/usr/bin/python3",
            "-c",
            CLIENT
            + """
resource.setrlimit(resource.RLIMIT_NOFILE, (12000, 12000))
channels, refused = [], 0
for number in range(10_000):
    channel = socket.socket(socket.AF_UNIX)
    channel.settimeout(5)
    try:
        channel.connect("/run/stepguard/agent.sock")
    except OSError:
        refused += 1
    channels.append(channel)
print("flood", refused, flush=True)
time.sleep(60)
""",
        ],
        host="n1",
        user="bob",
    )
    flood.wait_output("flood", 100)
    assert_agent_serves(lab)
    flood.kill()
    assert_agent_serves(lab)


def test_a_users_status_tells_only_of_their_own_jobs(lab: Cluster) -> None:
    job_id = submit(lab, "touch status.$SLURM_JOB_ID; sleep 5")
    until("it runs", (lab.home() / f"status.{job_id}").exists, 20)
    ask = "print(ask(message(kind=b'status')).decode())"
    assert job_id in client(lab, ask)
    assert job_id not in client(lab, ask, user="bob")
    lab.run(["scancel", job_id])
