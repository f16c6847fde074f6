"""What a public docstring promises: it names the errors that are raised, and the units of times."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.docs.public import PUBLIC, names_of, value_of

OURS = ("workqueue", "informers", "reconcile", "controllers")

# What is not to be met: asyncio's own contract, and a list or mapping that is said not to change.
UNSAID = ("VirtualTimeLoop.", "FrozenList.", "FrozenMapping.")


def functions(module: str) -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Public functions and methods of a module, each with the docstring that speaks of it."""
    for name in names_of(module):
        value = value_of(module, name)
        if inspect.isfunction(value):
            yield name, value, value.__doc__ or ""
        elif inspect.isclass(value):
            yield from methods(name, value)


def methods(name: str, cls: type) -> Iterator[tuple[str, Callable[..., Any], str]]:
    for attribute, found in vars(cls).items():
        made = attribute in ("__init__", "__attrs_post_init__")
        function = getattr(getattr(found, "fget", found), "__func__", getattr(found, "fget", found))
        if inspect.isfunction(function) and (made or not attribute.startswith("_")):
            said = (function.__doc__ or "") + ((cls.__doc__ or "") if made else "")
            yield f"{name}.{attribute}", function, said


def raised(function: Callable[..., Any]) -> set[str]:
    """The errors that a function of ours raises in its own lines, by name."""
    function = inspect.unwrap(function)
    if function.__module__.partition(".")[0] not in OURS or function.__code__.co_filename.startswith("<"):
        return set()
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    thrown = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None]
    names = [ast.unparse(one.func if isinstance(one, ast.Call) else one).split(".")[-1] for one in thrown]
    return {name for name in names if name[:1].isupper() and name != "AssertionError"}


@pytest.mark.rule("docs-raises")
@pytest.mark.parametrize("module", PUBLIC)
def test_a_docstring_names_the_errors_that_are_raised(module: str) -> None:
    unsaid = {
        f"{name}: {error}"
        for name, function, said in functions(module)
        for error in raised(function)
        if error not in said and not name.startswith(UNSAID)
    }
    assert unsaid == set()


UNITS = (r"seconds?\b", r"\bm?s\b", "minutes", "hours", "share", r"\brate\b", "ratio", "chance", "thousandth")
UNIT = re.compile("|".join((*UNITS, "from 0 to", r"\[0, 1\)")))

# Numbers of any kind.
NO_TIMES = {
    "Quantity.__init__: text",
    "Schema.__init__: maximum",
    "Schema.__init__: minimum",
    "Schema.__init__: multiple_of",
}


@pytest.mark.rule("docs-units")
@pytest.mark.parametrize("module", PUBLIC)
def test_a_docstring_names_the_unit_of_a_number(module: str) -> None:
    silent = {
        f"{name}: {parameter}"
        for name, function, said in functions(module)
        for parameter in floats(function)
        if not UNIT.search(said) and "seconds" not in parameter and not name.startswith(UNSAID)
    }
    assert silent <= NO_TIMES


def floats(callable_: Any) -> list[str]:
    try:
        parameters = inspect.signature(callable_).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one.name for one in parameters if "float" in str(one.annotation)]
