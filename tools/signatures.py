"""For the pages of the reference: signatures as a caller sees them.

griffe reads source. It makes the signatures of dataclasses and not those of attrs classes, and shows a
default by the name that it has in a module. An extension of it; `tools/mkdocs.yml` names it.
"""

from ast import literal_eval
from collections.abc import Iterator
from typing import Any

from griffe import (
    Attribute,
    Class,
    Expr,
    ExprCall,
    ExprKeyword,
    ExprName,
    Extension,
    Function,
    Module,
    Parameter,
    Parameters,
)
from griffe import ParameterKind as Kind

ATTRS = frozenset({"attrs.frozen", "attrs.define"})
RECORDS = frozenset({"typing.NamedTuple", "msgspec.Struct"})
KIND = "reconcile.models.objects.Object"
"""The base of kinds: whatever makes attrs classes of them, they are built by keyword."""

BLOCKING = "reconcile.controller.synchronous.blocking"


class Signatures(Extension):
    """Gives attrs classes, and classes of kinds, their `__init__`; and every function its defaults."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Griffe has read a package, all that it imports from other packages of ours aside."""
        for part in parts(pkg):
            if isinstance(part, Class) and "__init__" not in part.members and is_made_of_fields(part):
                part.set_member("__init__", initializer(part))
        for part in parts(pkg):
            if isinstance(part, Class):
                part.members.update((one.name, one) for one in blocking_methods(pkg, part))
        for part in parts(pkg):
            if isinstance(part, Function):
                for parameter in part.parameters:
                    parameter.default = constant(pkg, parameter.default)


def parts(owner: Module | Class) -> Iterator[Class | Function]:
    """All classes and functions of a package, in all its modules and classes."""
    for member in list(owner.members.values()):
        if isinstance(member, Class | Function):
            yield member
        if isinstance(member, Module | Class):
            yield from parts(member)


def blocking_methods(package: Module, cls: Class) -> Iterator[Function]:
    """What `get = blocking(Client.get)` makes: methods that take what those of `Client` take."""
    for name, member in cls.members.items():
        value = member.value if isinstance(member, Attribute) else None
        if isinstance(value, ExprCall) and value.canonical_path.startswith(BLOCKING):
            source = package.modules_collection[value.arguments[0].canonical_path]
            returns = str(source.returns).replace("Async", "")
            yield Function(
                name, parent=cls, parameters=source.parameters, returns=returns, docstring=source.docstring
            )


def constant(package: Module, default: Any) -> Any:
    """What a name stands for, if it is that of a number, a text or an empty mapping of the package."""
    if not isinstance(default, ExprName):
        return default
    home, _, name = default.canonical_path.removeprefix(f"{package.path}.").rpartition(".")
    try:
        value = str(package[f"{home}.{name}" if home else name].value)
        return value if isinstance(literal_eval(value), int | float | str | dict) else default
    except (KeyError, ValueError, SyntaxError, AttributeError):
        return default


def is_made_of_fields(cls: Class) -> bool:
    """Whether its signature is made of its fields: an attrs class, a kind, a named tuple, a struct."""
    bases = {base.canonical_path for base in cls.bases if isinstance(base, Expr)}
    return is_kind(cls) or not ATTRS.isdisjoint(decorators(cls)) or not RECORDS.isdisjoint(bases)


def is_kind(cls: Class) -> bool:
    """Whether it is the model of a kind, or the base of such ones."""
    return KIND in {cls.path, *(base.path for base in cls.mro())}


def decorators(cls: Class) -> list[str]:
    """Where the decorators of a class come from."""
    return [one.value.canonical_path for one in cls.decorators if isinstance(one.value, Expr)]


def initializer(cls: Class) -> Function:
    """The `__init__` of a class and its bases; fields that are given by name alone come last."""
    fields: dict[str, Parameter] = {}
    for owner in [*reversed(cls.mro()), cls]:
        fields.update((one.name, one) for one in parameters(owner))
    if is_kind(cls):
        fields = {name: by_name(one) for name, one in fields.items()}
    ordered = sorted(fields.values(), key=lambda one: one.kind is Kind.keyword_only)
    itself = Parameter("self", kind=Kind.positional_or_keyword)
    return Function("__init__", parent=cls, parameters=Parameters(itself, *ordered), returns="None")


def by_name(given: Parameter) -> Parameter:
    """The same parameter, which is given by name alone."""
    return Parameter(given.name, annotation=given.annotation, kind=Kind.keyword_only, default=given.default)


def parameters(cls: Class) -> list[Parameter]:
    """The fields of the class itself that are arguments."""
    named = any(
        keyword(one.value, "kw_only") == "True" for one in cls.decorators if isinstance(one.value, ExprCall)
    )
    found = []
    for member in cls.members.values():
        if not isinstance(member, Attribute) or not is_field(member):
            continue
        said = member.value if is_call_of_field(member.value) else None
        if said is not None and keyword(said, "init") == "False":
            continue
        by_name_alone = named or keyword(said, "kw_only") == "True"
        kind = Kind.keyword_only if by_name_alone else Kind.positional_or_keyword
        name, default = member.name.lstrip("_"), member.value if said is None else default_of(said)
        found.append(Parameter(name, annotation=member.annotation, kind=kind, default=default))
    return found


def is_field(member: Attribute) -> bool:
    """Whether attrs takes it for a field: it has a type, and is neither a ClassVar nor a property."""
    class_only = "class-attribute" in member.labels and "instance-attribute" not in member.labels
    return member.annotation is not None and "property" not in member.labels and not class_only


def is_call_of_field(value: Any) -> bool:
    """Whether a default is attrs' `field(...)`, or the one of models."""
    return isinstance(value, ExprCall) and value.canonical_path.rpartition(".")[2] == "field"


def default_of(call: Any) -> Any:
    """What a field is if it is not given; None if it has to be."""
    factory = argument(call, "factory")
    return argument(call, "default") if factory is None else f"{factory}()"


def keyword(call: Any, name: str) -> str:
    """The text of an argument of a call; empty without it."""
    return str(argument(call, name)) if isinstance(call, ExprCall) else ""


def argument(call: ExprCall, name: str) -> Any:
    """What a call gives for a name."""
    given = [one for one in call.arguments if isinstance(one, ExprKeyword)]
    return next((one.value for one in given if one.name == name), None)
