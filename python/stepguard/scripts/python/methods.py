# SPDX-License-Identifier: Apache-2.0
"""What methods of texts, lists, dictionaries and files make of their arguments."""

from __future__ import annotations

from collections.abc import Callable

from stepguard.scripts.python import calls, containers, texts
from stepguard.scripts.python.call import Call
from stepguard.scripts.python.nodes import name_of
from stepguard.scripts.python.things import (
    Dictionary,
    Thing,
    either,
    fields_of,
    file_key,
    is_value,
    taints_in,
    value_of,
)
from stepguard.scripts.values import (
    Array,
    Field,
    Piece,
    Value,
    bounded,
    text_of,
)


def _itself(made: Call) -> Thing:
    return made.base if made.base is not None else ()


def _base_value(made: Call) -> Value:
    return value_of(made.base, made.at) if made.base is not None else ()


def _format(made: Call) -> Thing:
    return bounded(texts.format_(_base_value(made), made.arguments, made.named, made.at))


def _substitute(made: Call) -> Thing:
    entries = dict(made.named)
    if isinstance(mapping := made.first(), Dictionary):
        entries |= mapping.entries
    return bounded(texts.substituted(_base_value(made), entries, made.at))


def _replace(made: Call) -> Thing:
    if len(made.arguments) < 2 or not is_value(made.base or ()):
        return made.unknown(made.taints())
    return bounded(texts.replaced(_base_value(made), text_of(made.value(0)), made.value(1)))


def _join(made: Call) -> Thing:
    return bounded(texts.joined(_base_value(made), made.first(), made.at))


def _split(made: Call) -> Thing:
    if made.arguments or made.named:
        return made.unknown(made.taints())
    return texts.words(_base_value(made))


def _append(made: Call) -> Thing:
    fields = tuple(Field(value_of(thing, made.at) or (Piece("", made.at, True),)) for thing in made.arguments[-1:])
    return _grown(made, Array(fields))


def _extend(made: Call) -> Thing:
    return _grown(made, Array(tuple(fields_of(made.first(), made.at))))


def _grown(made: Call, new: Array) -> Thing:
    held = made.base if made.base is not None else ()
    if made.name == "insert" and isinstance(held, Array):
        index = containers.whole(made.node.args[0]) if made.node.args else None
        index = len(held.fields) if index is None else index
        thing: Thing = Array((*held.fields[:index], *new.fields, *held.fields[index:]))
    elif isinstance(held, Array) or taints_in(new):
        thing = containers.added(made.program, held, new, made.node)
    else:
        return ()
    calls.change(made.program, made.receiver, thing)
    return ()


def _clear(made: Call) -> Thing:
    calls.change(made.program, made.receiver, Array(()) if isinstance(made.base, Array) else Dictionary())
    return ()


def _update_dict(made: Call) -> Thing:
    if isinstance(made.base, Dictionary):
        held = made.base
        for argument in made.node.args:
            if (other := containers.as_dictionary(made.program, argument)) is not None:
                held = containers.united(held, other)
        calls.change(made.program, made.receiver, held.with_(made.named))
        return ()
    return _extend(made)


def _from_dict(made: Call) -> Thing:
    """get, pop, setdefault of a dictionary; pop of a list."""
    if isinstance(made.base, Array):
        fields = made.base.fields
        return fields[-1].pieces if fields and not made.arguments else made.unknown(made.taints())
    if not isinstance(made.base, Dictionary):
        return made.unknown(made.taints())
    keys = containers.keys_of(made.program, made.node.args[0]) if made.node.args else []
    found = containers.entry(made.program, made.base, keys, made.at)
    if len(made.arguments) < 2:
        return found
    known = any(key in made.base.entries for key in keys)
    if made.name == "setdefault" and not known:
        entries = dict.fromkeys(keys, made.arguments[1])
        calls.change(made.program, made.receiver, made.base.with_(entries))
    return found if known else either(made.arguments[1], found, made.at)


def _write(made: Call) -> Thing:
    if "stdout" in (name_of(made.receiver) or ""):
        made.program.printed |= made.taints()
    else:
        made.program.write(made.base or (), made.value(0) or made.unknown(made.taints()), made.at)
    return ()


def _read(made: Call) -> Thing:
    content = made.program.files.get(file_key(made.base or (), made.at))
    return content if content is not None else made.unknown(made.taints())


METHODS: dict[str, Callable[[Call], Thing]] = {
    "format": _format, "substitute": _substitute, "safe_substitute": _substitute, "replace": _replace, "join": _join,
    "split": _split, "append": _append, "add": _append, "insert": _append, "extend": _extend, "clear": _clear,
    "update": _update_dict, "get": _from_dict, "pop": _from_dict, "setdefault": _from_dict, "write": _write,
    "writelines": _write, "write_text": _write, "write_bytes": _write, "read": _read, "read_text": _read,
    "readlines": _read, "readline": _read,
    **dict.fromkeys(
        ("strip", "rstrip", "lstrip", "decode", "encode", "lower", "upper", "expanduser", "resolve", "absolute",
         "as_posix", "copy", "open", "communicate", "__enter__", "__str__"),
        _itself,
    ),
}  # fmt: skip
