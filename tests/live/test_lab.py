# SPDX-License-Identifier: Apache-2.0
"""The lab does what it says: every operation of it, and that nothing of it stays."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import Cluster, LabError, wait_until
from lab.directory import living, remove_stale
from lab.hung import hung

# A connection as programs of a job have it: the far side sends a line each 50 ms and says when it hears of an end.
LISTENER = """
import socket
with socket.create_server(("0.0.0.0", 7000)) as server:
    print("listening", flush=True)
    peer, _ = server.accept()
    for line in peer.makefile():
        print(line.strip(), flush=True)
    print("end", flush=True)
"""
TALKER = """
import itertools, socket, sys, time
peer = socket.create_connection((sys.argv[1], 7000))
print("connected", flush=True)
for number in itertools.count():
    peer.sendall(b"line %d\\n" % number)
    time.sleep(0.05)
"""
KNOCK = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 6818), timeout=1)
    print("open")
except OSError as error:
    print(type(error).__name__)
"""


def python(program: str, *arguments: str) -> list[str]:
    return ["/usr/bin/python3", "-u", "-c", program, *arguments]


def test_hosts_are_separate_but_for_home_and_shared(lab: Cluster) -> None:
    lab.write("mine", "alice's\n")
    for host in ("ctl", "login", *lab.nodes):
        assert lab.run(["hostname"], host=host).stdout == f"{host}\n"
        lab.run(["sh", "-c", "test ! -e /tmp/trace && touch /tmp/trace"], host=host)
        assert lab.run(["cat", str(lab.home() / "mine")], host=host).stdout == "alice's\n"
        lab.run(["touch", str(lab.shared / host)], host=host, user="bob")
    assert {path.name for path in lab.shared.iterdir()} >= {"ctl", "login", *lab.nodes}
    seen = lab.run(["ps", "-e", "-o", "comm="], host="n1").stdout.split()
    assert "slurmd" in seen
    assert "slurmctld" not in seen
    assert "slurmctld" in " ".join(lab.processes("ctl").values())
    assert lab.run(["cat", str(lab.home() / "mine")], user="bob", check=False).status != 0


def test_job_of_an_unprivileged_user_gets_gpus(lab: Cluster) -> None:
    done = lab.run(
        ["srun", "-N2", "-l", "--gres=gpu:2", "sh", "-c", "echo $(id -un) $(hostname) $CUDA_VISIBLE_DEVICES"]
    )
    assert sorted(done.stdout.splitlines()) == ["0: alice n1 0,1", "1: alice n2 0,1"]


def test_accounting_answers(lab: Cluster) -> None:
    name = f"counted-{time.monotonic_ns()}"
    job = lab.run(["sbatch", "--parsable", "-o", "/dev/null", "-J", name, "--wrap", "exit 3"]).stdout.strip()

    def state() -> str:
        return lab.run(["sacct", "-nPX", "-j", job, "-o", "JobName,State,ExitCode,Account"]).stdout.strip()

    wait_until(lambda: state() == f"{name}|FAILED|3:0|research", "accounting of the job", 30, 0.3)


def test_run_tells_of_failure_and_ends_what_takes_too_long(lab: Cluster) -> None:
    assert lab.run(["sh", "-c", "echo out; echo err >&2; exit 7"], check=False).status == 7
    with pytest.raises(LabError, match="status 7") as failed:
        lab.run(["sh", "-c", "echo the reason >&2; exit 7"])
    assert "the reason" in str(failed.value)
    with pytest.raises(LabError, match="still runs after"):
        lab.run(["sleep", "4711"], timeout_s=0.2)
    assert not running(lab, "login", "sleep 4711")
    with pytest.raises(LabError, match="no such user"):
        lab.run(["true"], user="mallory")
    assert lab.run(["cat"], text_in="a line\n").stdout == "a line\n"
    assert lab.run(["printenv", "MINE", "HOME"], env={"MINE": "x y"}).stdout == f"x y\n{lab.home()}\n"
    assert lab.run(["pwd"], cwd=lab.shared).stdout == f"{lab.shared}\n"


def test_signals_reach_the_program(lab: Cluster) -> None:
    process = lab.start(["sh", "-c", "trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.1; done"])
    process.wait_output("ready", 5)
    assert process.status is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(5) == 5
    assert process.stdout == "ready\ngot it\n"
    process = lab.start(["sleep", "60"])
    process.send_signal(signal.SIGKILL)
    assert process.wait(5) == -signal.SIGKILL


def test_terminal_through_srun(lab: Cluster) -> None:
    process = lab.start(["srun", "-w", "n1", "--pty", "bash", "--norc"], tty=True)
    process.write("echo $((6*7)) $(tty) $(stty size)\n")
    assert " 24 80" in process.read_terminal("42 /dev/pts/0 24 80", 10)
    process.write("sleep 1001\n")
    wait_until(lambda: running(lab, "n1", "sleep 1001"), "sleep runs", 5)
    process.write("\x03")
    wait_until(lambda: not running(lab, "n1", "sleep 1001"), "sleep has ended", 5)
    process.write("exit 9\n")
    assert process.wait(10) == 9


def test_terminal_stops_and_continues_a_program(lab: Cluster) -> None:
    process = lab.start(["bash", "--norc", "-i"], tty=True)
    process.write("sleep 1002\n")
    wait_until(lambda: running(lab, "login", "sleep 1002"), "sleep runs", 5)
    (pid,) = running(lab, "login", "sleep 1002")
    process.write("\x1a")
    wait_until(lambda: state(pid) == "T", "sleep is stopped", 5)
    process.write("fg\n")
    wait_until(lambda: state(pid) == "S", "sleep goes on", 5)
    process.hang_up()
    assert process.wait(5) != 0
    wait_until(lambda: state(pid) is None, "sleep has ended with its terminal", 5)


def test_power_cut_is_silent_and_the_node_comes_back() -> None:
    with Cluster(nodes=2) as lab:
        listener = lab.start(python(LISTENER), host="n1")
        listener.wait_output("listening", 5)
        lab.start(python(TALKER, "n1"), host="n2")
        listener.wait_output("line 1", 5)
        members = lab.processes("n2")
        assert members

        begin = time.monotonic()
        lab.power_off("n2")
        assert time.monotonic() - begin < 1
        assert not [pid for pid in members if Path(f"/proc/{pid}").exists()]
        # No RST and no FIN: the other side of the connection hears nothing, new ones are not refused either.
        time.sleep(0.5)
        assert "end" not in listener.stdout
        assert lab.run(python(KNOCK, "n2"), host="n1").stdout.strip() in ("TimeoutError", "OSError")
        assert lab.run(python(KNOCK, "n1"), host="ctl").stdout.strip() == "open"
        with pytest.raises(LabError, match="n2 is off"):
            lab.power_off("n2")
        with pytest.raises(LabError, match="n2 is off"):
            lab.run(["true"], host="n2")

        lab.power_on("n2")
        wait_until(lambda: lab.node_states()["n2"] == "down", "Slurm sees that n2 has booted", 15, 0.1)
        assert "unexpectedly rebooted" in lab.run(["scontrol", "show", "node", "n2"]).stdout
        lab.resume("n2")
        assert lab.run(["srun", "-w", "n2", "hostname"]).stdout == "n2\n"


def test_cut_link_heals_with_all_that_ran() -> None:
    with Cluster(nodes=2) as lab:
        listener = lab.start(python(LISTENER), host="n1")
        listener.wait_output("listening", 5)
        talker = lab.start(python(TALKER, "n1"), host="n2")
        listener.wait_output("line 1", 5)
        lab.cut_link("n2")
        time.sleep(0.2)
        heard = listener.stdout
        time.sleep(0.5)
        assert listener.stdout == heard
        assert talker.status is None
        assert lab.run(python(KNOCK, "n2"), host="n1").stdout.strip() in ("TimeoutError", "OSError")
        lab.heal_link("n2")
        # TCP sends again what was lost: no line is missing.
        last = int(heard.splitlines()[-1].split()[1])
        listener.wait_output(f"line {last + 1}\nline {last + 2}\n", 20)
        assert lab.run(["srun", "-w", "n2", "hostname"]).stdout == "n2\n"


def test_controller_restart_keeps_the_job() -> None:
    with Cluster(nodes=2) as lab:
        job = lab.run(["sbatch", "--parsable", "-N2", "-o", "out", "--wrap", "srun sleep 3; echo done"]).stdout.strip()
        wait_until(lambda: f"{job}.0 " in lab.run(["squeue", "-h", "-s"]).stdout, "step runs", 10, 0.1)
        lab.stop_controller()
        assert "is DOWN" in lab.run(["scontrol", "ping"], check=False).stdout
        with pytest.raises(LabError, match="slurmctld does not run"):
            lab.stop_controller()
        lab.start_controller()
        assert lab.run(["squeue", "-h", "-o", "%i %T"]).stdout == f"{job} RUNNING\n"
        wait_until(lambda: (lab.home() / "out").read_text() == "done\n", "job ends", 20, 0.1)
        lab.restart_controller()
        lab.wait_idle()


def test_configuration_changes() -> None:
    with Cluster(nodes=1, slurm_conf={"KillWait": "7", "JobRequeue": None}) as lab:

        def config(name: str) -> str:
            lines = lab.run(["scontrol", "show", "config"]).stdout.splitlines()
            return next(line.split("=", 1)[1].strip() for line in lines if line.split("=")[0].strip() == name)

        assert config("KillWait") == "7 sec"
        lab.reconfigure({"KillWait": "9"}, plugstack="optional /nonexistent.so\n")
        assert config("KillWait") == "9 sec"
        assert lab.run(["cat", "/etc/slurm/plugstack.conf"], host="n1").stdout == "optional /nonexistent.so\n"
        lab.reconfigure(plugstack="")
        assert lab.run(["srun", "--immediate=5", "cat", "/etc/slurm/plugstack.conf"]).stdout == ""


def test_main_partition_preempts_the_low_one_when_configured() -> None:
    with Cluster(nodes=1, slurm_conf={"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE"}) as lab:
        lab.run(["sbatch", "-p", "low", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 60"])
        wait_until(lambda: lab.run(["squeue", "-h", "-o", "%T"]).stdout == "RUNNING\n", "low job runs", 15, 0.1)
        assert lab.run(["srun", "--exclusive", "hostname"]).stdout == "n1\n"
        assert "Restarts=1" in lab.run(["scontrol", "show", "job"]).stdout


def test_prefix_is_shown_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "file").write_text("shown\n")
    with Cluster(nodes=1, prefix=tmp_path) as lab:
        for host in ("login", "n1"):
            assert lab.run(["cat", "/opt/stepguard/file"], host=host).stdout == "shown\n"
            failed = lab.run(["touch", "/opt/stepguard/new"], host=host, user="root", check=False)
            assert "Read-only file system" in failed.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_two_labs_at_once() -> None:
    with Cluster(nodes=2) as one, Cluster(nodes=2) as other:
        assert one.shared != other.shared
        one.power_off("n1")
        assert other.run(["srun", "-N2", "true"]).status == 0
        other.run(["sbatch", "-o", "/dev/null", "--wrap", "true"])
        assert one.run(["squeue", "-h"]).stdout == ""


def test_many_nodes() -> None:
    begin = time.monotonic()
    with Cluster(nodes=32) as lab:
        assert time.monotonic() - begin < 20
        assert len(lab.run(["srun", "-N32", "hostname"]).stdout.split()) == 32


def test_a_machine_is_left_as_it_was() -> None:
    before = machine()
    with Cluster(nodes=2, gpus_per_node=1) as lab:
        lab.run(["srun", "-N2", "touch", "/tmp/in-the-lab"])
        path = lab.shared.parent
        assert path in living()
        lab.power_off("n1")
    assert not path.exists()
    assert machine() == before


OWNER = """
import time
from lab import Cluster
with Cluster(nodes=2) as lab:
    lab.start(["sleep", "100"], host="n1")
    print(lab.shared.parent, *(pid for host in ("ctl", "login", "n1", "n2") for pid in lab.processes(host)), flush=True)
    time.sleep(100)
"""


def test_nothing_lives_on_when_the_owner_is_killed() -> None:
    before = machine()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, env=env) as owner:
        assert owner.stdout is not None
        path, *pids = owner.stdout.readline().split()
        assert len(pids) > 10
        assert Path(path) in living()
        owner.kill()
    wait_until(lambda: not any(state(int(pid)) for pid in pids), "all processes of the lab are gone", 10)
    wait_until(lambda: Path(path) not in living(), "the lock is free", 10)
    remove_stale()
    assert not Path(path).exists()
    assert machine() == before


def test_command_line(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    lab = [sys.executable, "-m", "lab"]

    def said(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*lab, *arguments], env=env, capture_output=True, text=True, timeout=60, check=False)

    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*lab, "up", "--nodes=2"], text=True, env=env, **pipes) as up:  # type: ignore[call-overload]
        assert "n1, n2 are idle" in up.stdout.readline()
        assert said("exec", "srun", "-N2", "-l", "hostname").stdout.count("n") == 2
        assert said("exec", "--user=root", "--host=ctl", "id", "-u").stdout == "0\n"
        assert said("exec", "false").returncode == 1
        for _ in range(2):
            up.stdout.readline()
        up.stdin.write("power_off n2\nnonsense\npower_off n9\n")
        up.stdin.flush()
        assert up.stdout.readline().startswith("not one of")
        assert up.stdout.readline().startswith("no: ")
        assert "no host n2 is on" in said("exec", "--host=n2", "true").stderr
        up.stdin.close()
        assert up.wait(20) == 0
    assert "none lives" in said("exec", "true").stderr


def machine() -> dict[str, object]:
    """What a lab could leave behind."""
    return {
        "mounts": Path("/proc/self/mounts").read_text(),
        "links": sorted(name for _, name in socket.if_nameindex()),
        "users": Path("/etc/passwd").read_text(),
        "hosts": Path("/etc/hosts").read_text(),
        "slurm": sorted(Path("/etc/slurm").iterdir()) if Path("/etc/slurm").exists() else [],
        "opt": sorted(Path("/opt").iterdir()),
        "run": sorted(Path("/run").glob("*slurm*")) + sorted(Path("/run").glob("*mysql*")),
        "hostname": socket.gethostname(),
    }


def running(lab: Cluster, host: str, command: str) -> list[int]:
    return [pid for pid, line in lab.processes(host).items() if line.strip() == command]


def state(pid: int) -> str | None:
    """The letter that ps(1) shows for a process; None when it has ended."""
    try:
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if letter == "Z" else letter


def test_a_boot_id_is_a_hosts_own_and_new_with_each_boot() -> None:
    def boot_id(host: str) -> str:
        return lab.run(["cat", "/proc/sys/kernel/random/boot_id"], host=host).stdout

    with Cluster(nodes=2, slurm_conf={"ReturnToService": "2"}) as lab:
        before = {host: boot_id(host) for host in ("ctl", "n1", "n2")}
        assert len(set(before.values())) == 3
        assert before["n1"] == boot_id("n1")
        lab.power_off("n1")
        lab.power_on("n1")
        assert len(boot_id("n1")) == len(before["n1"]) == 37
        assert boot_id("n1") != before["n1"]
        assert boot_id("n2") == before["n2"]


def test_a_hung_file_system_answers_nobody_until_it_is_back() -> None:
    with Cluster(nodes=1) as lab:
        lab.write(lab.shared / "file", "text\n")
        with hung(lab, "n1", lab.shared):
            reader = lab.start(["cat", str(lab.shared / "file")], host="n1")
            time.sleep(0.3)
            reader.send_signal(signal.SIGKILL)
            time.sleep(0.3)
            assert reader.status is None
            assert lab.run(["cat", str(lab.shared / "file")], host="login").stdout == "text\n"
        reader.wait(5)
        assert lab.run(["cat", str(lab.shared / "file")], host="n1").stdout == "text\n"
