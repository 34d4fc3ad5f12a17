# SPDX-License-Identifier: Apache-2.0
"""The functions and classes of a Python program itself: they are followed where they are called."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from stepguard.scripts.python import containers
from stepguard.scripts.python.nodes import name_of
from stepguard.scripts.python.program import Frame, Layer, Program
from stepguard.scripts.python.things import (
    Code,
    Dictionary,
    Thing,
    either,
    literal,
    taints_in,
    value_of,
)
from stepguard.scripts.values import (
    Array,
    Field,
    text_of,
    unknown,
)

_MAX_DEPTH = 12  # of calls that are followed
_MAX_METHODS = 3  # of one name, in several classes
_CALL_STEPS = 8  # what a call costs by itself
_MAX_PLAIN_STEPS = 500  # in one function that starts nothing, by all calls with arguments that come from nowhere
_CONSTRUCTED = ("__init__", "__post_init__")


def defaults_of(program: Program, arguments: ast.arguments) -> dict[str, Thing]:
    """What parameters are when they are not given."""
    found: dict[str, Thing] = {}
    names = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(names[len(names) - len(arguments.defaults) :], arguments.defaults, strict=True)]
    pairs += [(name, value) for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    for parameter, value in pairs:
        found[parameter.arg] = program.evaluate(value)
    return found


def invoke(program: Program, code: Code, given: Sequence[Thing], by_name: dict[str, Thing], at: int) -> Thing:
    """Calls a function or class of the program."""
    node = code.node
    arguments, named = (*code.given, *given), {**code.named, **by_name}
    if isinstance(node, ast.ClassDef):
        return _construct(program, node, arguments, named, at)
    taints = frozenset().union(*(taints_in(thing) for thing in (*arguments, *named.values())))
    if len(program.frames) >= _MAX_DEPTH or any(frame.code.node is node for frame in program.frames):
        return (unknown(at, taints),)
    program.waiting.pop(node, None)
    key = None
    if (
        not taints and not program.shell.placed and program.used.get(node, 0) > _MAX_PLAIN_STEPS
    ):  # once more would tell nothing new
        return program.results.get((node,), (unknown(at),))
    program.take(_CALL_STEPS)
    steps, acts = program.steps, program.acts
    if not taints and not program.shell.placed:
        texts = (text_of(value_of(thing, at)) for thing in (*arguments, *named.values()))
        functions = (id(thing) for thing in (*arguments, *named.values()) if isinstance(thing, Code))
        key = (node, program.changes, *named, *texts, *functions)
        if key in program.results:
            return program.results[key]
    layer, placed = program.branch(), program.shell.placed
    parameters = _bind(program, code, arguments, named, at)
    frame = Frame(code, at, frozenset(parameters), layer)
    program.frames.append(frame)
    if isinstance(node, ast.Lambda):
        frame.returned.append(program.evaluate(node.body))
    else:
        program.walk(node.body)
        for inner in frame.defined:
            if inner.node in program.waiting:
                invoke(program, inner, (), {}, at)
    program.frames.pop()
    program.leave()
    program.shell.placed = placed
    program.merge([*(() if layer.ended and frame.ends else (_lasting(layer, frame),)), *frame.ends])
    program.layer.ended = False
    result: Thing = frame.returned[0] if frame.returned else ()
    for other in frame.returned[1:]:
        result = either(result, other, at)
    if key is not None:
        program.results[key] = program.results[node,] = result
    if program.acts == acts:
        program.used[node] = program.used.get(node, 0) + program.steps - steps
    for name in frame.changed:
        program.rebind(parameters[name], layer.own[name])
    return result


def _bind(
    program: Program, code: Code, arguments: Sequence[Thing], named: dict[str, Thing], at: int
) -> dict[str, Thing]:
    """Gives the parameters their values."""
    assert not isinstance(code.node, ast.ClassDef)
    parameters = code.node.args
    names = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
    bound: dict[str, Thing] = {}
    if names[:1] in (["self"], ["cls"]):
        bound[names[0]] = (unknown(at, label="self", quoted=True),)
        names = names[1:]
    bound |= zip(names, arguments, strict=False)
    names += [parameter.arg for parameter in parameters.kwonlyargs]
    for name in names:
        if name not in bound:
            bound[name] = named.get(name, code.defaults.get(name, (unknown(at, label=name, quoted=True),)))
    if parameters.vararg is not None:
        rest = arguments[len(parameters.posonlyargs) + len(parameters.args) :]
        bound[parameters.vararg.arg] = Array(tuple(Field(value_of(thing, at)) for thing in rest))
    if parameters.kwarg is not None:
        bound[parameters.kwarg.arg] = Dictionary({key: named[key] for key in named if key not in names})
    for name, thing in bound.items():
        program.assign(name, thing)
    return bound


def _lasting(layer: Layer, frame: Frame) -> Layer:
    """What a call leaves behind: attributes, the environment, and names that are not its own."""
    kept = Layer()
    kept.own = {name: thing for name, thing in layer.own.items() if name[0] in ".$" or name in frame.shared}
    return kept


def leave_call(program: Program) -> None:
    """A path ends with `return`: what it leaves behind is kept."""
    if not program.frames:
        return
    frame = program.frames[-1]
    layers: list[Layer] = []
    layer: Layer | None = program.layer
    while layer is not None:
        layers.append(layer)
        layer = layer.outer if layer is not frame.layer else None
    end = Layer()
    for layer in reversed(layers):
        end.own |= _lasting(layer, frame).own
    frame.ends.append(end)


def _construct(
    program: Program, node: ast.ClassDef, arguments: Sequence[Thing], named: dict[str, Thing], at: int
) -> Thing:
    found = False
    for statement in _inherited(program, node, 0):
        if isinstance(statement, ast.FunctionDef) and statement.name in _CONSTRUCTED:
            found = True
            is_first = statement.name == _CONSTRUCTED[0]
            code = Code(statement, defaults_of(program, statement.args))
            invoke(program, code, arguments if is_first else (), named if is_first else {}, at)
    if not found or not any(
        isinstance(statement, ast.FunctionDef) and statement.name == "__init__" for statement in node.body
    ):
        fields = [
            statement.target.id
            for statement in node.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        ]
        for name, thing in (dict(zip(fields, arguments, strict=False)) | named).items():
            program.assign(f".{name}", thing)
    return (unknown(at, label=node.name, quoted=True),)


def _inherited(program: Program, node: ast.ClassDef, depth: int) -> list[ast.stmt]:
    """The statements of a class, or of the one that it extends where it does not say how it is made."""
    if any(getattr(statement, "name", "") in _CONSTRUCTED for statement in node.body) or depth > _MAX_METHODS:
        return node.body
    for base in node.bases:
        held = program.look(name_of(base) or "")
        if isinstance(held, Code) and isinstance(held.node, ast.ClassDef) and held.node is not node:
            return _inherited(program, held.node, depth + 1)
    return node.body


def method(program: Program, name: str, arguments: Sequence[Thing], named: dict[str, Thing], at: int) -> Thing:
    """Calls a method, of whichever class."""
    found: Thing | None = None
    for code in program.methods[name][:_MAX_METHODS]:
        thing = invoke(program, code, arguments, named, at)
        found = thing if found is None else either(found, thing, at)
    return found if found is not None else ()


def is_property(program: Program, name: str) -> bool:
    """Whether a method is read as an attribute."""
    return any(
        name_of(decorator) in ("property", "cached_property")
        for code in program.methods.get(name, ())
        if not isinstance(code.node, ast.Lambda)
        for decorator in code.node.decorator_list
    )


def change(program: Program, node: ast.expr, thing: Thing) -> None:
    """What a name or attribute holds is changed, not replaced."""
    program.changes += 1
    if isinstance(node, ast.Name):
        program.share(node.id)
        program.assign(node.id, thing)
    elif isinstance(node, ast.Attribute):
        program.assign(f".{node.attr}", thing, anew=True)
    elif isinstance(node, ast.Subscript):
        held = program.evaluate(node.value)
        keys = containers.keys_of(program, node.slice)
        if isinstance(held, Dictionary) and keys:
            change(program, node.value, held.with_(dict.fromkeys(keys, thing)))


def entry_of(asked: str, key: str, thing: Thing, at: int) -> Thing:
    """What a loop over the items, keys or values of a dictionary gets."""
    name = literal(key, at)
    if asked == "items":
        return Array((Field(name), Field(value_of(thing, at))))
    return name if asked == "keys" else thing
