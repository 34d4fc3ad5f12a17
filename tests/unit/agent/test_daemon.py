# SPDX-License-Identifier: Apache-2.0
"""The life of jobs in a real agent, from its socket to what is left in its spool."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stepguard.records import spool, wire
from unit.agent.agent_process import USER, AgentProcess, children, environment, epilog, fields, prolog, wait_until
from unit.everybody import LOAD_ALL

Make = Callable[..., AgentProcess]


def _output_of(path: Path) -> dict[str, bytes]:
    status = path.stat()
    identity = f"{status.st_dev}:{status.st_ino}:reg"
    return fields("output", 7, stdout=str(path), stderr=str(path), stdout_id=identity, stderr_id=identity)


def _begin(agent: AgentProcess, **variables: str) -> None:
    script = fields("batch", 7, step_id="batch", script=b"#!", uid=USER, gid=USER, environment=environment(**variables))
    agent.tell(prolog(7), script)


def _end(agent: AgentProcess) -> None:
    agent.tell(fields("step_end", 7, step_id="batch"), epilog(7))
    wait_until(lambda: agent.is_complete("7.0"))


def test_a_batch_job_with_its_output_and_journal(make_agent: Make) -> None:
    agent = make_agent(more="head_kib = 1\ntail_kib = 1\n").start()
    out = agent.directory / "out"
    out.write_bytes(b"a" * 1024 + b"lost" + b"z" * 1024)
    journal = agent.directory / "state/stepguard/c/7/resumes.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_text("{}\n")
    _begin(agent, XDG_STATE_HOME=str(agent.directory / "state"))
    assert agent.ask_as(USER, _output_of(out)) == b"ok\n"
    _end(agent)
    assert agent.kinds("7.0") == ["prolog", "batch", "output", "step_end", "epilog"]
    directory = agent.layout.jobs / "7.0"
    assert (directory / "stdout.raw").read_bytes() == b"a" * 1024 + b"z" * 1024
    meta = agent.meta("7.0", "stdout")
    assert (meta["source"], meta["what"], meta["why"], meta["size_bytes"]) == (str(out), "regular", "", 2052)
    assert (meta["head_bytes"], meta["tail_bytes"]) == (1024, 1024)
    assert (directory / "resumes.raw").read_text() == "{}\n"
    assert not (directory / "stderr.meta").exists()
    wait_until(lambda: agent.status()["attempts"] == [])
    assert agent.log().count("\n") == 1, agent.log()


def test_output_that_root_alone_may_read_is_not_read(agent: AgentProcess) -> None:
    secret = agent.directory / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    _begin(agent)
    assert agent.ask_as(USER, _output_of(secret)) == b"ok\n"
    _end(agent)
    meta = agent.meta("7.0", "stdout")
    assert (meta["what"], meta["why"], meta["head_bytes"]) == ("unreadable", "Permission denied (EACCES)", 0)
    assert not (agent.layout.jobs / "7.0/stdout.raw").exists()


def test_output_that_was_replaced_says_so(agent: AgentProcess) -> None:
    out = agent.directory / "out"
    out.write_text("old")
    told = _output_of(out)
    new = agent.directory / "new"
    new.write_text("new")
    new.rename(out)
    _begin(agent)
    agent.ask_as(USER, told)
    _end(agent)
    assert "another file" in agent.meta("7.0", "stdout")["why"]
    assert (agent.layout.jobs / "7.0/stdout.raw").read_text() == "new"


def test_a_reader_that_hangs_is_given_up(make_agent: Make) -> None:
    agent = make_agent("output_read_s = 1.0")
    stuck = agent.directory / "read_as"
    stuck.write_text("#!/bin/sh\nexec sleep 100\n")
    stuck.chmod(0o755)
    agent = make_agent("output_read_s = 1.0", env={"STEPGUARD_LIBEXEC": str(agent.directory)}).start()
    _begin(agent)
    agent.ask_as(USER, _output_of(stuck))
    agent.tell(fields("step_end", 7, step_id="batch"), epilog(7))
    agent.tell(prolog(8))  # meanwhile
    wait_until(lambda: agent.is_complete("7.0"))
    assert agent.meta("7.0", "stdout")["why"] == "it could not be read within 1 s"
    wait_until(lambda: agent.status()["readers"] == {"busy": 0, "hung": 0})


def test_without_read_as_the_record_says_so(make_agent: Make) -> None:
    agent = make_agent(env={"STEPGUARD_LIBEXEC": "/nonexistent"}).start()
    _begin(agent)
    agent.ask_as(USER, _output_of(agent.config))
    _end(agent)
    assert "cannot start" in agent.meta("7.0", "stdout")["why"]


def test_a_restart_takes_up_what_was_open(agent: AgentProcess) -> None:
    _begin(agent)
    agent.tell(prolog(8, 3), fields("step_start", 8, step_id="0"))
    agent.tell(fields("step_end", 7, step_id="batch"))
    agent.stop(signal.SIGKILL)
    agent.start()
    assert [(a["job_id"], a["attempt"], a["steps"]) for a in agent.status()["attempts"]] == [(7, 0, []), (8, 3, ["0"])]
    agent.tell(fields("step_end", 8, step_id="0"), epilog(8, 3), epilog(7))
    wait_until(lambda: agent.is_complete("7.0") and agent.is_complete("8.3"))
    assert agent.kinds("8.3") == ["prolog", "step_start", "step_end", "epilog"]


def test_what_a_power_cut_has_cut_short_was_never_told_to_be_kept(agent: AgentProcess) -> None:
    agent.tell(prolog(7))
    agent.stop()
    directory = agent.layout.jobs / "7.0"
    whole = wire.encode(epilog(7))
    for number, content in enumerate((b"", whole[:20], whole[:-1]), 100):
        (directory / spool.message_name(number, "epilog")).write_bytes(content)
    (directory / spool.message_name(103, "step_end")).write_bytes(b"\0" * 40)  # damaged in another way
    agent.start()
    assert agent.kinds("7.0") == ["prolog", "step_end"]
    assert agent.log().count("was cut short by a power cut") == 3
    assert agent.status()["attempts"][0]["is_ending"] is False
    agent.tell(epilog(7))
    wait_until(lambda: agent.is_complete("7.0"))


def test_a_restart_remembers_which_attempts_have_had_their_epilog(agent: AgentProcess) -> None:
    """The archive takes nothing, so they are still in the spool."""
    later = {**epilog(7, 1), "boottime_ns": b"9000000000"}
    agent.tell(prolog(7), epilog(7), {**prolog(8), "boot_id": b"an earlier one"})
    wait_until(lambda: agent.is_complete("7.0") and agent.is_complete("8.0"))
    agent.stop()
    agent.start()
    agent.tell(later, {**later, "job_id": b"8"})
    wait_until(lambda: agent.is_complete("7.1") and agent.status()["attempts"] == [])
    assert (agent.kinds("7.0"), agent.kinds("7.1")) == (["prolog", "epilog"], ["epilog"])
    assert (agent.kinds("8.0"), agent.kinds("8.1")) == (["prolog", "closed", "epilog"], [])


def test_a_reboot_closes_what_was_open(agent: AgentProcess) -> None:
    agent.tell({**prolog(7), "boot_id": b"an earlier one"})
    wait_until(lambda: agent.is_complete("7.0"))
    assert agent.kinds("7.0") == ["prolog", "closed"]
    closed = wire.decode((agent.layout.jobs / "7.0/000002.closed").read_bytes())
    assert (closed["why"], closed["job_id"], closed["node"]) == (b"reboot", b"7", b"n1")


def test_a_late_message_is_marked_complete_again(agent: AgentProcess) -> None:
    agent.tell(prolog(7), epilog(7))
    wait_until(lambda: agent.is_complete("7.0"))
    for file in (agent.layout.jobs / "7.0").iterdir():
        file.unlink()
    (agent.layout.jobs / "7.0").rmdir()
    agent.tell(fields("step_end", 7, step_id="0"))
    wait_until(lambda: agent.is_complete("7.0"))
    assert agent.kinds("7.0") == ["step_end"]


def test_two_prologs_and_a_requeue(agent: AgentProcess) -> None:
    agent.tell(prolog(7), prolog(7), epilog(7), prolog(7, 1), epilog(7, 1))
    wait_until(lambda: agent.is_complete("7.0") and agent.is_complete("7.1"))
    assert agent.kinds("7.0") == ["prolog", "prolog", "epilog"]
    assert agent.kinds("7.1") == ["prolog", "epilog"]


def test_status_and_verdict(make_agent: Make) -> None:
    agent = make_agent()
    fault = agent.directory / "fault"
    agent = make_agent(more=f'[resume]\nfault_file = "{fault}"\n').start()
    agent.tell(prolog(7))
    fault.write_text("replace: XID 79\n")
    findings = [{"source": "fault-file", "action": "replace", "text": "XID 79"}]
    assert json.loads(agent.ask(fields("verdict", 7)))["findings"] == findings
    own = json.loads(agent.ask_as(USER, fields("verdict", 7)))
    assert (own["job_id"], own["findings"]) == (7, findings)
    assert agent.ask_as(1234, fields("verdict", 7)).startswith(b"refused job 7 is not yours")
    assert [a["job_id"] for a in json.loads(agent.ask_as(USER, fields("status")))["attempts"]] == [7]
    assert json.loads(agent.ask_as(1234, fields("status")))["attempts"] == []
    fault.write_text("check: fans\nreplace: XID 79\n")
    node = json.loads(agent.ask(fields("health")))
    assert (node["status"], node["action"]) == ("fail", "replace")
    assert [(item["status"], item["text"]) for item in node["items"]] == [
        ("fail", "fault-file: XID 79"),
        ("warn", "fault-file: fans"),
    ]
    assert json.loads(agent.ask(fields("status")))["health"]["items"][0] == "fault-file: XID 79"
    fault.write_text("")
    assert json.loads(agent.ask(fields("health")))["items"] == []


@pytest.mark.parametrize(
    ("gate", "fault", "answer"),
    [
        ("true", "replace: XID 79", b"fail replace: XID 79\n"),
        ("true", "check: fans", b"ok\n"),
        ("true", "ok\n", b"ok\n"),
        ("true", "check: fans\nreplace: XID 79", b"fail replace: XID 79\n"),
        ("false", "replace: XID 79", b"ok\n"),
    ],
)
def test_the_gate(make_agent: Make, gate: str, fault: str, answer: bytes) -> None:
    agent = make_agent()
    (agent.directory / "fault").write_text(fault)
    agent = make_agent(f"gate = {gate}", more=f'[resume]\nfault_file = "{agent.directory}/fault"\n').start()
    assert agent.ask(prolog(7)) == answer
    refused = answer.startswith(b"fail")
    assert agent.kinds("7.0") == ["prolog", *(["finding"] if refused else [])]
    if refused:
        finding = wire.decode((agent.layout.jobs / "7.0/000002.finding").read_bytes())
        assert (finding["code"], finding["text"]) == (b"gate", b"no job may start here: replace: XID 79")
        assert (finding["node"], finding["job_id"]) == (b"n1", b"7")
    assert agent.ask(epilog(7)) == b"ok\n"
    wait_until(lambda: agent.is_complete("7.0"))


def test_a_second_agent_refuses(agent: AgentProcess, make_agent: Make) -> None:
    done = subprocess.run(agent.argv(), capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"another agent is running: pid {agent.pid} holds" in done.stderr
    other = make_agent(name="other")
    other.config.write_text(other.config.read_text().replace(str(other.socket), str(agent.socket)))
    done = subprocess.run(other.argv(), capture_output=True, text=True, timeout=20)
    assert (done.returncode, f"pid {agent.pid} listens" in done.stderr) == (1, True)
    assert agent.status()["pid"] == agent.pid


@pytest.mark.parametrize(
    ("part", "mode", "owner", "why"),
    [
        ("run", 0o777, 0, "its mode is 0777: chmod 0755"),
        ("run", 0o1777, 0, "it is everybody's (mode 1777): name a directory below it"),
        ("run", 0o755, USER, f"it belongs to uid {USER}"),
        ("spool", 0o750, 0, "its mode is 0750: chmod 0700"),
        ("spool", 0o700, USER, f"it belongs to uid {USER}"),
    ],
)
def test_wrong_permissions(make_agent: Make, part: str, mode: int, owner: int, why: str) -> None:
    agent = make_agent()
    (agent.directory / part).mkdir()
    (agent.directory / part).chmod(mode)
    os.chown(agent.directory / part, owner, owner)
    done = subprocess.run(agent.argv(), capture_output=True, text=True, timeout=20)
    assert (done.returncode, why in done.stderr) == (1, True), done.stderr
    checked = subprocess.run(agent.argv("--check"), capture_output=True, text=True, timeout=20)
    assert (checked.returncode, why in checked.stderr) == (78, True), checked.stderr


@pytest.mark.parametrize("way", ["others", "link"])
@pytest.mark.parametrize("part", ["run", "spool"])
@pytest.mark.parametrize(("mode", "owner", "why"), [(0o777, 0, "mode 0777"), (0o755, USER, f"belongs to uid {USER}")])
def test_a_place_that_others_could_exchange(
    make_agent: Make, way: str, part: str, mode: int, owner: int, why: str
) -> None:
    agent = make_agent()
    others = agent.directory / "others"
    (others / "deep").mkdir(parents=True)
    others.chmod(mode)
    os.chown(others, owner, owner)
    (agent.directory / "link").symlink_to(others / "deep")
    text = agent.config.read_text()
    agent.config.write_text(text.replace(f'"{agent.directory}/{part}', f'"{agent.directory}/{way}/{part}'))
    for words, status in ([], 1), (["--check"], 78):
        done = subprocess.run(agent.argv(*words), capture_output=True, text=True, timeout=20)
        assert (done.returncode, why in done.stderr, f"below {others}" in done.stderr) == (status, True, True), done
    assert not (others / part).exists() and not (others / "deep" / part).exists()


@pytest.mark.parametrize(
    ("socket", "spool", "archive", "why"),
    [
        ("r/s", "a", "a", "two things at one place: [agent] spool: @/a, [archive] dir: @/a: name two paths"),
        ("r/s", "a", "x/../a//", "two things at one place: [agent] spool: @/a, [archive] dir: @/a: name two paths"),
        ("r/s", "a", "a/b", "one lies inside of the other: [agent] spool: @/a, [archive] dir: @/a/b"),
        ("r/s", "a/b/c", "a", "one lies inside of the other: [agent] spool: @/a/b/c, [archive] dir: @/a"),
        ("a", "a", "b", "two things at one place: [agent] socket: @/a, [agent] spool: @/a: name two paths"),
        ("a/s", "a", "b", "one lies inside of the other: [agent] socket: @/a/s, [agent] spool: @/a"),
        ("b/s", "a", "b", "one lies inside of the other: [agent] socket: @/b/s, [archive] dir: @/b"),
        ("r/s", "a", "/", "not a place of stepguard's own: [archive] dir: /: name a path below it"),
        ("r/s", "a", "//", "not a place of stepguard's own: [archive] dir: /: name a path below it"),
        ("r/s", "/", "b", "not a place of stepguard's own: [agent] spool: /: name a path below it"),
        ("r/s", "a", "linked", "two things at one place: [agent] spool: @/a, [archive] dir: @/a"),
    ],
)
def test_places_that_exclude_one_another(make_agent: Make, socket: str, spool: str, archive: str, why: str) -> None:
    agent = make_agent()
    (agent.directory / "linked").symlink_to(agent.directory / "a")
    before = sorted(agent.directory.iterdir())
    paths = [path if path.startswith("/") else f"{agent.directory}/{path}" for path in (socket, spool, archive)]
    agent.config.write_text('[agent]\nsocket = "{}"\nspool = "{}"\n[archive]\ndir = "{}"\n'.format(*paths))
    said = f"stepguard: {why.replace('@', str(agent.directory))}"
    for words in [["--check"], []] if archive != "linked" else [["--check"]]:
        done = subprocess.run(agent.argv(*words), capture_output=True, text=True, timeout=20)
        assert (done.returncode, said in done.stderr) == (78, True), done.stderr
    assert sorted(agent.directory.iterdir()) == before


def test_what_stands_in_the_configuration_does_not_steer_a_terminal(make_agent: Make) -> None:
    agent = make_agent()
    for line in ('dir = "/a\\u001b[2Jb"', 'dir = "/a\\nb"', 'dir = "/a\\u009b"', '"\\u001b[2J" = 1'):
        agent.config.write_text(f"[archive]\n{line}\n")
        done = subprocess.run(agent.argv("--check"), capture_output=True, text=True, timeout=20)
        assert (done.returncode, done.stderr.count("\n")) == (78, 1), done.stderr
        assert (done.stdout + done.stderr).rstrip("\n").isprintable(), done.stderr


def test_others_than_root_may_not_run_it(make_agent: Make) -> None:
    code = (
        f"import os, sys\n{LOAD_ALL}\n"
        "from stepguard.cli.agent import main\n"
        f"os.setgid({USER}); os.setuid({USER})\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    argv = [sys.executable, "-c", code, *make_agent().argv()[-2:]]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    assert (done.returncode, "must be root" in done.stderr) == (1, True), done.stderr


def test_check_says_where_values_are_from(make_agent: Make, libexec: Path) -> None:
    agent = make_agent("gate = true", env={"STEPGUARD_LIBEXEC": str(libexec)})
    environ = {**os.environ, "STEPGUARD_LIBEXEC": str(libexec)}
    (agent.directory / "archive").mkdir()
    done = subprocess.run(agent.argv("--check"), capture_output=True, text=True, timeout=20, env=environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"gate = true  # {agent.config}" in done.stdout.splitlines()
    assert "deadline_ms = 500  # default" in done.stdout.splitlines()
    agent.config.write_text('agent = { socket = "/run/x/y" }\n')
    done = subprocess.run(agent.argv("--check"), capture_output=True, text=True, timeout=20, env=environ)
    assert (done.returncode, "[agent] socket: write it as" in done.stderr) == (78, True)
    agent.config.write_text("[agent]\nsoket = 1\n")
    done = subprocess.run(agent.argv("--check"), capture_output=True, text=True, timeout=20, env=environ)
    assert (done.returncode, "unknown key 'soket'" in done.stderr) == (78, True)


@pytest.mark.parametrize(
    ("line", "is_plain"),
    [
        ("deadline_ms = 500 # ms", True),
        ("spool = '/s'", True),
        ("deadline_ms = 1_000", False),
        ("deadline_ms = 0x10", False),
        ('spool = "/s\\u0061"', False),
        ('spool = """/s"""', False),
        (f"gate = true #{'x' * 1023}", False),
        ('"gate" = true', False),
    ],
)
def test_check_tells_what_c_does_not_understand(make_agent: Make, libexec: Path, line: str, is_plain: bool) -> None:
    agent = make_agent()
    agent.config.write_text(f"[agent]\n{line}\n")
    environ = {**os.environ, "STEPGUARD_LIBEXEC": str(libexec)}
    done = subprocess.run(agent.argv("--check"), capture_output=True, text=True, timeout=20, env=environ)
    assert ("for the hooks" not in done.stderr) == is_plain, done.stderr
    assert is_plain or done.returncode == 78


def _check(agent: AgentProcess, libexec: Path, lines: str, directory: str) -> tuple[int, str]:
    head = agent.config.read_text().partition("[archive]")[0]
    agent.config.write_text(f'{head}[archive]\ndir = "{directory}"\n{lines}\n')
    environ = {**os.environ, "STEPGUARD_LIBEXEC": str(libexec)}
    done = subprocess.run(agent.argv("--check"), capture_output=True, text=True, timeout=20, env=environ)
    return done.returncode, done.stderr


def test_check_finds_all_with_which_nothing_would_be_archived(make_agent: Make, libexec: Path) -> None:
    agent = make_agent()
    archive = agent.directory / "archive"
    archive.mkdir()
    key, rules = agent.directory / "key", agent.directory / "rules.toml"
    key.write_bytes(bytes(32))
    key.chmod(0o644)
    rules.write_text("garbage")
    for lines, said in [
        ('admin_groups = ["no-such-group"]', "no such group: [archive] admin_groups: no-such-group"),
        ('admin_groups = ["root", "daemon"]', "more than one group: [archive] admin_groups"),
        ('redaction_off = ["none"]', "no redaction rule 'none' to switch off: [archive] redaction_off"),
        ('redaction_rules = "/nonexistent"', "[archive] redaction_rules: /nonexistent"),
        (f'redaction_rules = "{rules}"', f"not TOML: [archive] redaction_rules: {rules}"),
        ('fingerprint_key = "/nonexistent"', "cannot read the key: [archive] fingerprint_key: /nonexistent"),
        (f'fingerprint_key = "{key}"', f"the key is not root's alone: [archive] fingerprint_key: {key}"),
    ]:
        status, stderr = _check(agent, libexec, lines, str(archive))
        assert (status, stderr.count("\n"), said in stderr) == (78, 1, True), stderr
    both = 'admin_groups = ["no-such-group"]\nredaction_off = ["none"]'
    (agent.directory / "open").mkdir()
    (agent.directory / "open").chmod(0o1777)
    assert _check(agent, libexec, both, f"{agent.directory}/open")[1].count("\n") == 3, "all are named at once"
    assert _check(agent, libexec, "", str(archive)) == (0, "")


def test_check_looks_at_the_archives_directory(make_agent: Make, libexec: Path) -> None:
    agent = make_agent()
    status, stderr = _check(agent, libexec, "", "/tmp")
    assert (status, "/tmp: others than root may write to this directory" in stderr) == (78, True), stderr
    status, stderr = _check(agent, libexec, "", str(agent.config))
    assert (status, f"{agent.config}: Not a directory" in stderr) == (78, True), stderr
    (agent.directory / "others").mkdir()
    (agent.directory / "others/archive").mkdir()
    (agent.directory / "others").chmod(0o777)
    status, stderr = _check(agent, libexec, "", f"{agent.directory}/others/archive")
    assert (status, "others may exchange it (mode 0777)" in stderr) == (78, True), stderr
    status, stderr = _check(agent, libexec, "", "/nonexistent")
    assert (status, "warning: [archive] dir: /nonexistent: there is no such directory" in stderr) == (0, True), stderr


def test_sigterm_answers_what_it_took_and_leaves_no_socket(agent: AgentProcess) -> None:
    archivers = children(agent.pid, "archiver")
    assert len(archivers) == 1
    descriptors = _open_files(archivers[0])
    assert not [name for name in descriptors if "lock" in name or "socket" in name], descriptors
    with agent.connect() as idle:
        assert agent.stop() == 0
        assert idle.recv(10) == b""
    assert not agent.socket.exists()
    wait_until(lambda: not (cmdline := Path(f"/proc/{archivers[0]}/cmdline")).exists() or not cmdline.read_bytes())


def _open_files(pid: int) -> list[str]:
    """What they are links to; without those that the process closes meanwhile."""
    names = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            names.append(str(link.readlink()))
    return names


def test_sighup_ends_nothing(agent: AgentProcess) -> None:
    assert agent.process is not None
    agent.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "read at start only" in agent.log())
    assert agent.status()["pid"] == agent.pid


def test_systemd_is_told(make_agent: Make) -> None:
    agent = make_agent()
    address = str(agent.directory / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(address)
        channel.settimeout(10)
        agent = make_agent(env={"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "200000"}).start()
        assert channel.recv(100) == b"READY=1"
        assert channel.recv(100) == b"WATCHDOG=1"
        assert channel.recv(100) == b"WATCHDOG=1"


def test_a_dead_archiver_is_started_again(agent: AgentProcess) -> None:
    first = wait_until(lambda: agent.status()["archiver"]["pid"])
    os.kill(first, signal.SIGKILL)
    second = wait_until(lambda: agent.status()["archiver"]["pid"] not in (None, first))
    assert second and "the archiver ended with status -9" in agent.log()


def test_it_is_small_and_sleeps(agent: AgentProcess) -> None:
    for job_id in range(1, 101):
        agent.tell(prolog(job_id), epilog(job_id))
    wait_until(lambda: not agent.status()["attempts"])

    def cpu_s() -> float:
        words = Path(f"/proc/{agent.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    before_s = cpu_s()
    with pytest.raises(subprocess.TimeoutExpired):
        assert agent.process is not None
        agent.process.wait(5)
    assert cpu_s() - before_s <= 0.1  # it does not spin; what it takes is measured in bench/
    status = Path(f"/proc/{agent.pid}/status").read_text()
    resident_kib = int(status.partition("VmRSS:")[2].split()[0])
    assert resident_kib < 24 << 10
