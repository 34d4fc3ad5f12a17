# SPDX-License-Identifier: Apache-2.0
"""What a Python program starts and whom it calls: there its values decide where something runs.

What is started through subprocess, os, asyncio, paramiko or Fabric is read as the command that it is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepguard.scripts.programs import DECIDING
from stepguard.scripts.python.nodes import string_of
from stepguard.scripts.python.program import Program
from stepguard.scripts.python.things import Code, Dictionary, Thing, fields_of, file_key, taints_in, value_of
from stepguard.scripts.shell import uses
from stepguard.scripts.shell.arguments import connects, is_name
from stepguard.scripts.values import CLEAN, Array, Field, Taints, text_of

if TYPE_CHECKING:
    from stepguard.scripts.python.call import Call
    from stepguard.scripts.shell.walk import Shell

# They take a command, a text for the shell or a list of words (subprocess, os, asyncio, paramiko, Fabric, pty).
_STARTS = frozenset(
    ("run", "call", "check_call", "check_output", "Popen", "getoutput", "getstatusoutput", "system", "popen",
     "create_subprocess_shell", "create_subprocess_exec", "exec_command", "sudo", "local")
)  # fmt: skip
_START_STEPS = 30  # what it costs to start a program
_EXECS = re.compile(r"(exec|spawn)([lv])p?(e?)|posix_spawnp?()()()")
_RUNS_PYTHON = frozenset(
    ("asyncio.run", "anyio.run", "trio.run", "uvicorn.run", "cProfile.run", "horovod.run", "horovod.run.run")
)
# They run a program in this one, which reads sys.argv.
_READS_ARGV = frozenset(("run_path", "run_module", "main", "cli"))
# They print or keep what they are told.
_KEEPS = re.compile(
    r"(?i)log\w*|print|write|info|debug|warn|warning|error|exception|critical|writelines|dumps?|get|namedtuple"
)
# Their arguments say where peers are: PyTorch, sockets, JAX, Dask, paramiko, asyncssh, Fabric, Ray, gRPC, XML-RPC.
_JOINS = frozenset(
    ("init_process_group", "init_distributed", "TCPStore", "create_connection", "open_connection", "Connection",
     "SerialGroup", "ThreadingGroup", "SSHCluster", "SSHClient", "insecure_channel", "secure_channel", "ServerProxy",
     "connect_ex", "init_rpc", "ClusterSpec", "ParallelSSHClient", "SshMachine", "init_device_mesh")
)  # fmt: skip
_CONFIGURATION = re.compile(r"(?i)\w*(?:cfg|conf|config|configuration|settings|trainer|strategy|hparams)")
# Of what the program itself has not defined: a function of that name that is given nodes goes to them.
_SETS_UP = re.compile(
    r"(?i)(?:^|_)(?:init(?:iali[sz]e)?|set_?up|connect|launch|start|spawn|join|distributed|cluster|rendezvous|bootstrap"
    r"|deploy|broadcast)(?:_|$)"
)
_CLIENT = re.compile(r"\w+(?:Client|Connection|Channel)")  # MongoClient, http.client.HTTPConnection
_TRACKS = re.compile(
    r"(?i)(?:wandb|mlflow|comet\w*|neptune|clearml|aim|swanlab|structlog|sentry\w*)\."
    r"|.*(?:log|track|report|record|telemetry|metric|monitor|profil|history)"
)
_JOINS_BY_PATH = re.compile(
    r"(?:torch\.)?distributed\.run\.main|(?:jax\.)?distributed\.initialize|(?:dask\.)?distributed\.(?:client\.)?Client|Client|ray\.init"
    r"|multiprocessing\.connection\.Client|horovod\.run(?:\.run)?"
    r"|(?:asyncssh|paramiko|socket|rpyc|zmq|redis|mpi4py)\.(?:\w+\.)*\w*[cC]onnect\w*"
)


def is_start(path: str, name: str) -> bool:
    """Whether a call starts a program."""
    if path in _RUNS_PYTHON:
        return False
    return name in _STARTS or _EXECS.fullmatch(name) is not None


def start(made: Call) -> Thing:
    """Starts a program; what it prints."""
    from stepguard.scripts.shell import commands

    made.program.acts += 1
    command, env = _command(made)
    program = made.program
    if command is None or not program.shell.budget.take(1):
        return made.unknown(made.taints())
    shell = _process(program, env, made.at)
    stdin = value_of(made.named["input"], made.at) if "input" in made.named else ()
    if (source := made.named.get("stdin")) is not None:
        stdin = program.files.get(file_key(source, made.at), value_of(source, made.at))
    fields = fields_of(command, made.at)
    if isinstance(command, Array):
        printed = commands.run(shell, fields, {}, stdin, made.at) if fields else ()
    else:
        printed = shell.nested(value_of(command, made.at), shell, stdin)
    program.files = shell.scope.files
    program.shell.whole = program.shell.whole and shell.whole
    if "stdout" in made.named:
        program.write(made.named["stdout"], printed, made.at)
    if made.name.startswith("exec") and made.name != "exec_command":
        judge_environment(program)
    return tuple(piece._replace(quoted=True) for piece in printed) or made.unknown(frozenset())


def _command(made: Call) -> tuple[Thing | None, Thing | None]:
    """(The text or the words of the command, its environment)."""
    arguments, env = made.arguments, made.named.get("env")
    found = _EXECS.fullmatch(made.name)
    if made.name == "create_subprocess_exec":
        return _list(arguments, made.at), env
    if found is None:
        return (arguments[0] if arguments else made.named.get("args", made.named.get("command"))), env
    if found[1] == "spawn":
        arguments = arguments[1:]  # the mode
    if found[3] or made.name.startswith("posix_spawn"):
        env = arguments[-1] if arguments else None
        arguments = arguments[:-1] if made.name[-1] == "e" else arguments[:2]
    if found[2] == "l":
        return _list(arguments[1:], made.at), env
    return (arguments[1] if len(arguments) > 1 else None), env


def _list(things: Sequence[Thing], at: int) -> Array:
    return Array(tuple(Field(value_of(thing, at)) for thing in things))


def _process(program: Program, env: Thing | None, at: int) -> Shell:
    """A process with the program's environment and files."""
    program.take(_START_STEPS)
    shell = program.shell.child()
    held = program.environment() if not isinstance(env, Dictionary) or env.of_environ else {}
    if isinstance(env, Dictionary):
        held |= {name: value_of(thing, at) for name, thing in env.entries.items()}
    shell.scope.variables.update(held)
    shell.scope.exported.update(held)
    shell.scope.files |= program.files
    return shell


def judge_environment(program: Program) -> None:
    """What the program has put into its environment tells it, or what it becomes, of its peers."""
    shell = program.shell.child()
    held = program.environment()
    shell.scope.variables.update(held)
    shell.scope.files |= program.files
    for name in held:
        shell.scope.exported = {name}
        uses.environment(shell, "this program", program.at(program.exported[name]))


def peers(made: Call) -> None:
    """Notes what a call tells the program of its peers."""
    shell = made.program.shell
    if made.name in _JOINS or _JOINS_BY_PATH.fullmatch(made.path) or _is_connection(made):
        made.program.acts += 1
        judge_environment(made.program)
        for thing in (*made.arguments, *made.named.values()):
            uses.note(shell, _of_peers(thing, made.at), f"{made.name}()", made.at)
    if made.name in _READS_ARGV and (argv := made.program.layer.get(".argv")) is not None:
        made.program.acts += 1
        uses.note(shell, _of_peers(argv, made.at), f"sys.argv, which {made.name}() reads", made.at)
    if _KEEPS.fullmatch(made.name):
        return
    tracks = _TRACKS.match(made.path) is not None
    if not tracks and (_SETS_UP.search(made.name) or _CLIENT.fullmatch(made.name)):
        for thing in made.arguments:
            uses.note(shell, _names(thing, made.at), f"{made.name}()", made.at)
    for name, thing in made.named.items():
        if isinstance(thing, Code):
            continue
        if DECIDING.search(name):
            made.program.acts += 1
            uses.note(shell, _of_peers(thing, made.at), f"{name} of {made.name}()", made.at)
        elif connects(name, value_of(thing, made.at)) and not _CONFIGURATION.fullmatch(name) and not tracks:
            uses.note(shell, _names(thing, made.at), f"{name} of {made.name}()", made.at)


def settings(program: Program, target: ast.expr, thing: Thing) -> None:
    """Notes what is set in a configuration: cfg.trainer.num_nodes = …, config["trainer"]["num_nodes"] = …"""
    name = target.attr if isinstance(target, ast.Attribute) else None
    if isinstance(target, ast.Subscript):
        name = string_of(target.slice)
    if name is not None and DECIDING.search(name) and not isinstance(thing, Code):
        root = target
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        if isinstance(root, ast.Name) and _CONFIGURATION.fullmatch(root.id):
            at = program.at(target)
            uses.note(program.shell, _of_peers(thing, at), f"{root.id}.{name}", at)


def _of_peers(thing: Thing, at: int) -> Taints:
    """What a value may tell of peers: not the name of a file, nor a number within a name."""
    if isinstance(thing, Array):
        return CLEAN.union(*(_of_peers(field.pieces, at) for field in thing.fields))
    value = value_of(thing, at)
    if text_of(value).startswith("file:"):
        return CLEAN
    return frozenset(taint for taint in taints_in(thing) if not (taint.is_count and is_name(value)))


def _names(thing: Thing, at: int) -> Taints:
    """What of a value names peers."""
    return frozenset(taint for taint in _of_peers(thing, at) if not taint.is_count)


def _is_connection(made: Call) -> bool:
    """A method that connects, of what is no database in a file."""
    return made.name == "connect" and isinstance(made.node.func, ast.Attribute) and "sqlite" not in made.path
