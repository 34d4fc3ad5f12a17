# SPDX-License-Identifier: Apache-2.0
"""What agents find on GPUs decides what becomes of a guarded step."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from guarded import Job, hosts_of, new_job, until
from lab.kernel import Kernel
from recorded import record_of
from sick import STEPGUARD, hang, health, kernel, sick_lab, slurms_word

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

PCI = ("0000:0f:00", "0000:1f:00")
GPUS = ("--exclusive", "--gres=gpu:2")
STEP = "srun --auto-resume=1 -N2 -n2 --gres=gpu:2"


def events(job: Job, event: str) -> list[dict[str, Any]]:
    return [record for record in job.journal() if record["event"] == event]


def test_a_gpu_that_falls_off_the_bus_under_a_program_that_hangs() -> None:
    """On the batch host, which Slurm leaves in the job: it is ALLOCATED+FAIL until the job has ended."""
    with sick_lab(3, reaction="fail") as lab:
        job = new_job(lab)
        job.submit(f"{STEP} {job.ring(400)}", "-N3", *GPUS)
        assert hosts_of(job.await_steps(10)) == {"n1", "n2"}
        hang(lab, "n1")
        kernel(lab, "n1").xid(79, gpu=1)
        after = job.await_steps(5, attempt=1)
        assert hosts_of(after) == {"n2", "n3"}
        until("n1 is marked", lambda: slurms_word(lab, "n1")[1] == "Action:Replace", 30, 0.3)
        assert slurms_word(lab, "n1")[0] >= {"ALLOCATED", "FAIL"}
        assert job.await_end(120) == "COMPLETED"
        until("n1 is free", lambda: "ALLOCATED" not in slurms_word(lab, "n1")[0], 60, 0.3)
        states, reason = slurms_word(lab, "n1")
        assert ("FAIL" in states, reason) == (True, "Action:Replace")

        text = f"n1: xid 79 on {PCI[1]}: NVRM: Xid (PCI:{PCI[1]}): 79, pid=77, name=python, GPU has fallen off the bus."
        assert f"Verdict: hardware: {text} (agent: replace)\n" in job.out()
        [told] = events(job, "health")
        assert (told["node"], told["code"], told["device"]) == ("n1", "79", PCI[1])
        assert (told["class"], told["action"]) == ("hardware-replace", "replace")
        end = events(job, "end")[0]
        assert (end["cause"], end["nodes"], end["action"]) == ("hardware", ["n1"], "replace")
        [evidence] = end["evidence"]
        assert (evidence["source"], evidence["code"], evidence["device"]) == ("agent", "79", PCI[1])
        assert 0 < end["detect_s"] < 60

        record_of(lab, job.id, within_s=60)
        shown = lab.run([STEPGUARD, "job", job.id], user="alice").stdout
        assert f"{text} (agent: hardware-replace, replace)" in shown
        assert f"hardware: {text} (agent: replace) (nodes n1); noticed after " in shown
        assert "; replaced within " in shown


def test_a_double_bit_error_asks_for_a_reset_and_the_step_goes_on_elsewhere() -> None:
    with sick_lab(3, reaction="fail") as lab:
        job = new_job(lab)
        job.submit(f"{STEP} {job.ring(200)}", "-N3", *GPUS)
        job.await_steps(10)
        kernel(lab, "n2").xid(48)
        assert hosts_of(job.await_steps(5, attempt=1)) == {"n1", "n3"}
        assert " (agent: reset-gpu)\n" in job.out()
        assert events(job, "end")[0]["action"] == "reset-gpu"
        until("n2 is marked", lambda: slurms_word(lab, "n2")[1] == "Action:Reboot", 30, 0.3)
        assert job.await_end() == "COMPLETED"


def test_a_program_that_is_quicker_than_the_kernels_log_is_resumed_all_the_same() -> None:
    with sick_lab(3) as lab:
        (lab.root("n2") / "dev/kmsg").chmod(0o666)  # the program says itself what the kernel says of its GPU
        job = new_job(lab)
        # Not before the step is seen as one, so that it is known which nodes it had.
        dies = f"sleep 3; echo '3,1,0,-;{Kernel.xid_text(79)}' >>/dev/kmsg; exit 1"
        body = (
            f"if [ $STEPGUARD_ATTEMPT$SLURMD_NODENAME = 0n2 ]; then {dies}; fi; test $STEPGUARD_ATTEMPT = 1 || sleep 20"
        )
        lab.write(job.directory / "body.sh", f"{body}\n")
        job.submit(f"srun --auto-resume=1 -K -N2 -n2 --gres=gpu:2 sh {job.directory}/body.sh", "-N3", *GPUS)
        assert job.await_end(120) == "COMPLETED", job.out()
        assert [end.get("cause") for end in events(job, "end")] == ["hardware", None]


def test_a_gpu_that_is_not_the_jobs_is_nobodys_concern_and_what_was_before_counts_when_the_step_has_failed() -> None:
    with sick_lab(3) as lab:
        kernel(lab, "n2").xid(48)
        until("the agent knows", lambda: health(lab, "n2")["status"] == "fail", 20, 0.2)
        job = new_job(lab, resume="require_exclusive = false")  # an exclusive job has all GPUs of its nodes
        lab.write(job.directory / "fails", "sleep 2; test $STEPGUARD_ATTEMPT$SLURMD_NODENAME != 0n2\n")
        step = "srun --overlap --auto-resume=1 -N2 -n2 --gres=gpu:1"
        # Left to itself, Slurm 26.05 runs the second step without n2.
        job.submit(f"{step} {job.ring(100)} && {step} -w n1,n2 sh {job.directory}/fails", "-N3", "--gres=gpu:1")
        job.await_steps(10)
        kernel(lab, "n1").xid(79, gpu=1)
        until("the agent knows", lambda: health(lab, "n1")["status"] == "fail", 20, 0.2)
        assert job.await_end(120) == "COMPLETED", job.out()
        assert hosts_of(job.progress()) == {"n1", "n2"}
        first, failed, last = events(job, "end")
        assert (first["status"], failed["cause"], failed["nodes"], last["status"]) == (0, "hardware", ["n2"], 0)
        [choice] = events(job, "choice")
        assert (choice["strategy"], set(choice["nodes"])) == ("spare", {"n1", "n3"})
        assert job.out().count("n2 has a known fault: xid 48 ") == 2  # once a step
        assert " (agent: reset-gpu), known before the step began\n" in job.out()
        assert "xid 79" not in job.out()


def test_an_agent_that_hangs_or_is_gone_leaves_the_fault_file() -> None:
    with sick_lab(4) as lab:
        agent = next(pid for pid, command in lab.processes("n2").items() if command.endswith("stepguard agent "))
        job = new_job(lab)
        job.submit(f"{STEP} {job.ring(500)}", "-N4", *GPUS)
        job.await_steps(10)
        os.kill(agent, signal.SIGSTOP)
        lab.agents.kill("n1")
        done = len(job.progress())
        job.await_steps(done + 100)  # heartbeats are answered all the while
        fault = lab.root("n2") / "run/stepguard/fault"
        fault.write_text("check: fans\n")
        until("it is told", lambda: "n2: fans (fault-file: check)" in job.out(), 20)
        fault.write_text("reboot: GSP timeout\n")
        assert hosts_of(job.await_steps(5, attempt=1)) == {"n1", "n3"}
        assert "n2: GSP timeout (fault-file: reboot)" in job.out()
        os.kill(agent, signal.SIGCONT)
        lab.run(["scancel", job.id])
