"""What a public docstring promises: it names the errors that are raised."""

import ast
import inspect
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
