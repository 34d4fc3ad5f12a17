# SPDX-License-Identifier: Apache-2.0
"""What functions of Python's library make of their arguments, and what is done to the environment."""

from __future__ import annotations

import ast
from collections.abc import Callable

from stepguard.scripts.python import calls, containers, starts, texts
from stepguard.scripts.python.call import Call
from stepguard.scripts.python.nodes import name_of, string_of
from stepguard.scripts.python.program import Layer
from stepguard.scripts.python.things import (
    NUMBER,
    Code,
    Dictionary,
    Named,
    Thing,
    either,
    file_key,
    literal,
    taints_in,
    value_of,
)
from stepguard.scripts.values import (
    CLEAN,
    Array,
    Field,
    Piece,
    bounded,
    counted,
    unknown,
)

_MAX_MAPPED = 32  # map over so many items is made item by item


def _get(made: Call) -> Thing:
    if not made.node.args:
        return made.unknown(CLEAN)
    read = containers.read_environ(made.program, made.node, made.node.args[0])
    default = made.node.args[1] if len(made.node.args) > 1 else None
    if default is None or (isinstance(default, ast.Constant) and default.value is None):
        return read
    return either(made.arguments[1], read, made.at)


def _set(made: Call) -> Thing:
    if len(made.node.args) == 2:
        for key in containers.keys_of(made.program, made.node.args[0]):
            made.program.assign(f"${key}", made.arguments[1])
    return ()


def _set_default(made: Call) -> Thing:
    if len(made.node.args) < 2:
        return made.unknown(CLEAN)
    thing = either(made.arguments[1], _get_alone(made), made.at)
    for key in containers.keys_of(made.program, made.node.args[0]):
        made.program.assign(f"${key}", thing)
    return thing


def _get_alone(made: Call) -> Thing:
    return containers.read_environ(made.program, made.node, made.node.args[0])


def _pop(made: Call) -> Thing:
    found = _get(made)
    for key in containers.keys_of(made.program, made.node.args[0]) if made.node.args else ():
        made.program.assign(f"${key}", made.unknown(CLEAN))
    return found


def _update(made: Call) -> Thing:
    for thing in made.arguments:
        if isinstance(thing, Dictionary):
            containers.into_environ(made.program, thing)
    containers.into_environ(made.program, Dictionary(made.named))
    return ()


def _environ_copy(made: Call) -> Thing:
    return Dictionary(of_environ=True)


def _same(made: Call) -> Thing:
    return made.first() if made.arguments else made.unknown(made.taints())


def _last(made: Call) -> Thing:
    return made.arguments[-1] if made.arguments else ()


def _as_text(made: Call) -> Thing:
    return tuple(piece._replace(label="") if piece.label == NUMBER else piece for piece in made.value(0))


def _as_number(made: Call) -> Thing:
    return tuple(piece._replace(label=NUMBER) if piece.text is not None else piece for piece in made.value(0))


def _as_list(made: Call) -> Thing:
    thing = made.first()
    if isinstance(thing, Dictionary):
        return Array(tuple(Field(literal(key, made.at)) for key in thing.entries))
    return thing if made.arguments else Array(())


def _length(made: Call) -> Thing:
    return made.unknown(counted(made.taints()))


def _next(made: Call) -> Thing:
    thing = made.first()
    if isinstance(thing, Array) and thing.fields:
        return thing.fields[0].pieces
    return made.unknown(made.taints())


def _map(made: Call) -> Thing:
    """map(function, list): what the function makes of each, of a few; otherwise the list as it is."""
    if len(made.arguments) != 2:
        return made.unknown(made.taints())
    function, items = made.arguments
    if not isinstance(function, Code):
        return items
    given = items.fields if isinstance(items, Array) and len(items.fields) <= _MAX_MAPPED else (Field(made.value(1)),)
    made_of = [calls.invoke(made.program, function, (item.pieces,), {}, made.at) for item in given]
    return Array(tuple(Field(value_of(thing, made.at)) for thing in made_of))


def _dict(made: Call) -> Thing:
    held = Dictionary()
    if made.node.args:
        held = containers.as_dictionary(made.program, made.node.args[0]) or Dictionary(rest=made.taints())
    return held.with_(made.named)


def _namespace(made: Call) -> Thing:
    for name, thing in made.named.items():
        made.program.assign(f".{name}", thing)
    return made.unknown(CLEAN)


def _path_join(made: Call) -> Thing:
    pieces: list[Piece] = []
    for index in range(len(made.arguments)):
        if index:
            pieces.append(Piece("/", made.at, True))
        pieces += made.value(index)
    return bounded(tuple(pieces)) if pieces else ()


def _print(made: Call) -> Thing:
    target = next((keyword.value for keyword in made.node.keywords if keyword.arg == "file"), None)
    if target is not None and name_of(target) not in ("stdout", "stderr"):
        made.program.write(made.named["file"], made.value(0), made.at)
    else:
        made.program.printed |= made.taints()
    return ()


def _write_out(made: Call) -> Thing:
    made.program.printed |= made.taints()
    return ()


def _dump(made: Call) -> Thing:
    if len(made.arguments) > 1:
        made.program.write(made.arguments[1], bounded(texts.settings(made.first(), made.at)), made.at)
    return ()


def _attributes(made: Call) -> Thing:
    """vars(args): all attributes that something has been given."""
    found: dict[str, Thing] = {}
    layer: Layer | None = made.program.layer
    while layer is not None:
        made.program.take(len(layer.own) // 8)
        found = {name[1:]: thing for name, thing in layer.own.items() if name[0] == "."} | found
        layer = layer.outer
    return Dictionary(found)


def _save(made: Call) -> Thing:
    if len(made.arguments) > 1:
        made.program.write(made.arguments[0], made.unknown(taints_in(made.arguments[1])), made.at)
    return ()


def _move(made: Call) -> Thing:
    if len(made.arguments) > 1 and (content := made.program.files.get(file_key(made.first(), made.at))) is not None:
        made.program.files[file_key(made.arguments[1], made.at)] = content
    return ()


def _field(made: Call) -> Thing:
    factory = made.named.get("default_factory")
    if isinstance(factory, Code):
        return calls.invoke(made.program, factory, (), {}, made.at)
    if isinstance(factory, Named):
        return Dictionary() if factory.path == "dict" else Array(())
    return made.named.get("default", ())


def _partial(made: Call) -> Thing:
    code = made.first()
    if isinstance(code, Code):
        return Code(code.node, code.defaults, (*code.given, *made.arguments[1:]), {**code.named, **made.named})
    return made.unknown(made.taints())


def _getattr(made: Call) -> Thing:
    name = string_of(made.node.args[1]) if len(made.node.args) > 1 else None
    held = made.program.layer.get(f".{name}") if name else None
    return held if held is not None else made.unknown(made.taints())


def _this_host(made: Call) -> Thing:
    return (unknown(made.at, label="HOSTNAME", quoted=True),)


def _exit(made: Call) -> Thing:
    starts.judge_environment(made.program)
    made.program.layer.ended = True
    return ()


def _split_words(made: Call) -> Thing:
    return texts.words(made.value(0))


def _join_words(made: Call) -> Thing:
    return bounded(texts.joined((Piece(" ", made.at, True),), made.first(), made.at))


FUNCTIONS: dict[str, Callable[[Call], Thing]] = {
    "os.environ.get": _get, "os.environ.__getitem__": _get, "os.environ.pop": _pop, "os.getenv": _get, "getenv": _get,
    "os.getenvb": _get, "os.environ.setdefault": _set_default, "os.environ.__setitem__": _set, "os.putenv": _set,
    "os.environ.update": _update, "os.environ.copy": _environ_copy, "copy.copy": _same, "copy.deepcopy": _same,
    "str": _as_text, "repr": _as_text, "int": _as_number, "float": _as_number, "bytes": _as_text, "os.fspath": _same,
    "list": _as_list, "tuple": _as_list, "set": _as_list, "sorted": _as_list, "reversed": _as_list, "iter": _as_list,
    "frozenset": _as_list, "len": _length, "next": _next, "dict": _dict, "collections.OrderedDict": _dict,
    "OrderedDict": _dict, "types.SimpleNamespace": _namespace, "SimpleNamespace": _namespace, "Namespace": _namespace,
    "argparse.Namespace": _namespace, "print": _print, "map": _map, "filter": _last, "sys.stdout.write": _write_out,
    "open": _same, "io.open": _same, "Path": _path_join, "pathlib.Path": _path_join,
    "os.path.join": _path_join, "path.join": _path_join,
    "os.path.abspath": _same, "os.path.expanduser": _same, "os.path.realpath": _same, "textwrap.dedent": _same,
    "dedent": _same, "string.Template": _same, "Template": _same, "shlex.split": _split_words, "shlex.quote": _same,
    "shlex.join": _join_words, "subprocess.list2cmdline": _join_words,
    **dict.fromkeys(("json.dump", "yaml.dump", "yaml.safe_dump", "toml.dump", "ujson.dump"), _dump),
    "vars": _attributes, "OmegaConf.create": _same, "omegaconf.OmegaConf.create": _same,
    "numpy.savetxt": _save, "os.rename": _move, "os.replace": _move, "shutil.move": _move, "shutil.copy": _move,
    "shutil.copyfile": _move,
    "dataclasses.field": _field, "field": _field, "functools.partial": _partial, "partial": _partial,
    **dict.fromkeys(("socket.gethostname", "socket.getfqdn", "gethostname", "platform.node", "os.uname"), _this_host),
    "getattr": _getattr, "sys.exit": _exit, "exit": _exit, "quit": _exit, "os._exit": _exit,
}  # fmt: skip
