# SPDX-License-Identifier: Apache-2.0
"""Which arguments decide where something runs, and which are a program's own affair."""

from __future__ import annotations

import pytest

from stepguard.scripts.check import check

HEAD = "#!/bin/bash\n#SBATCH -N 2 --exclusive\nH=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -1)\n"
TAIL = "\nsrun --auto-resume=1 ./a\n"


def severities(body: str) -> list[str]:
    """Of the stale values in a guarded job, in the order of their lines."""
    report = check("job.sh", (HEAD + body + TAIL).encode())
    return [finding.severity for finding in report.findings if finding.rule.kind == "stale-nodelist"]


@pytest.mark.parametrize(
    "command",
    [
        "srun --auto-resume=1 torchrun --nnodes 2 x.py --global-batch $((SLURM_NNODES*8))",
        "srun --auto-resume=1 torchrun --standalone -m pkg.train --batch=$((SLURM_NNODES*8))",
        "srun --auto-resume=1 accelerate launch --num_machines 2 x.py --batch $((SLURM_NNODES*8))",
        "srun --auto-resume=1 python -m torch.distributed.run --nnodes 2 x.py --cells $((SLURM_NNODES*8))",
        "deepspeed --num_gpus 8 x.py --batch $((SLURM_NNODES*8))",
        "mpirun -np 8 ./x --cells $((SLURM_NNODES*100))",
        "mpirun -np 8 --bind-to core $EXE --cells $((SLURM_NNODES*100))",
        "mpirun --mca btl tcp -np 8 ./x --cells $((SLURM_NNODES*100)) : -np 8 ./y --cells $((SLURM_NNODES*2))",
        "srun --auto-resume=1 python x.py --lr $SLURM_NNODES --seed=$SLURM_NNODES model.lr=$SLURM_NNODES",
    ],
)
def test_argument_of_a_launched_program_is_its_own(command: str) -> None:
    assert severities(command) == []


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("srun --auto-resume=1 torchrun --nnodes $((SLURM_NNODES-1)) x.py", ["warning"]),
        ("srun --auto-resume=1 torchrun --nnodes 2 x.py --num-nodes $SLURM_NNODES", ["error"]),
        ("srun --auto-resume=1 torchrun --nnodes 2 x.py $H", ["error"]),
        ("mpirun --mca btl tcp -np $((SLURM_NNODES*8)) ./x", ["warning"]),
        ("mpirun $FLAGS -wdir /opt/bin/x -np $((SLURM_NNODES*8)) ./x", ["warning"]),
        ("mpirun -np 8 ./x : -np $((SLURM_NNODES*8)) ./y", ["warning"]),
        ("mpirun -np 8 ./x --peer-list $H", ["error"]),
        ("srun --auto-resume=1 python x.py trainer.num_nodes=$SLURM_NNODES", ["error"]),
    ],
)
def test_argument_that_decides_where_something_runs(command: str, expected: list[str]) -> None:
    assert severities(command) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("scontrol show hostnames $SLURM_JOB_NODELIST > f; fluent 3ddp -cnf=f -i a.jou", ["error"]),
        ("starccm+ -batch run.java -on $H a.sim", ["error"]),
        ("comsol batch -nn $SLURM_NNODES -inputfile a.mph", ["error"]),
        ("scontrol show hostnames $SLURM_JOB_NODELIST > f; comsol batch -nn 2 -f f -inputfile a.mph", ["error"]),
        ("ansys232 -b -dis -machines $H -i a.dat", ["error"]),
        ("cfx5solve -def a.def -par-dist $H", ["error"]),
        ("./charmrun +p$((SLURM_NNODES*31)) ./namd2 x", ["warning"]),
        ("python -m sglang.launch_server --dist-init-addr $H:5000 --nnodes 2", ["error"]),
        ("comsol batch -inputfile $SLURM_NNODES.mph -outputfile $SLURM_NNODES", []),
        ("fluent 3ddp -i a.jou -sifile=$H", []),
    ],
)
def test_options_of_solvers(command: str, expected: list[str]) -> None:
    assert severities(command) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("run: $SLURM_JOB_NODELIST", []),
        ("# on $SLURM_JOB_NODELIST", []),
        ("name: a-$SLURM_JOB_NODELIST", []),
        ("lr: $SLURM_NNODES", []),
        ("hosts: [$SLURM_JOB_NODELIST]", ["error"]),
        ("num_nodes: $SLURM_NNODES", ["error"]),
        ('{"run": "a", "hosts": "$SLURM_JOB_NODELIST"}', ["error"]),
    ],
)
def test_key_in_a_file_of_settings(line: str, expected: list[str]) -> None:
    command = f"cat > c.yaml <<EOF\nseed: 1\n{line}\nEOF\nsrun --auto-resume=1 python x.py --config c.yaml"
    assert severities(command) == expected


@pytest.mark.parametrize(
    "calculation",
    [
        'python3 -c "print(0.1*$SLURM_NNODES)"',
        "python3 -c \"import os; print(int(os.environ['SLURM_NNODES']) / 2)\"",
        'perl -e "print 0.1*$SLURM_NNODES"',
        "perl -e 'print 0.1*$ENV{SLURM_NNODES}'",
        'awk "BEGIN{print 0.1*$SLURM_NNODES}"',
        "awk -v n=$SLURM_NNODES 'BEGIN{print n * 8}'",
        "echo $SLURM_NNODES | awk '{print $1*8}'",
    ],
)
def test_number_that_a_one_liner_calculates(calculation: str) -> None:
    assert severities(f"N=$({calculation})\nsrun --auto-resume=1 python x.py --cells $N") == []
    assert severities(f"N=$({calculation})\nsrun --auto-resume=1 torchrun --nnodes $N x.py") == ["warning"]


def test_number_that_a_one_liner_only_prints() -> None:
    body = 'N=$(python3 -c "print($SLURM_NNODES)")\nsrun --auto-resume=1 torchrun --nnodes $N x.py'
    assert severities(body) == ["error"]
