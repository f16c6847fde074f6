"""The docstrings below the fields of classes, if their source can be read."""

import ast
import functools
import gc
import inspect
import itertools
import linecache
from collections.abc import Iterator, Mapping
from typing import Any

import attrs


def descriptions_of(cls: type[Any]) -> dict[str, str]:
    """The docstrings below the fields of a class and its bases, by field; empty without source."""
    docs: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        if attrs.has(one):
            docs |= _own_docs(one)
    return docs


def _own_docs(cls: type[Any]) -> Mapping[str, str]:
    try:
        file = inspect.getsourcefile(cls)
    except (OSError, TypeError):
        return {}
    return _docs_of_file(file).get(cls.__qualname__, {}) if file else {}


@functools.cache
def _docs_of_file(file: str) -> Mapping[str, Mapping[str, str]]:
    """The docstrings below fields, by the qualified name of the class."""
    try:
        tree = _parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return {}
    return dict(_classes(tree.body, ""))


def _parse(source: str) -> ast.Module:
    """`ast.parse` without collections: a finalizer that parses too breaks it in Python 3.11 (gh-106905)."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if collecting:
            gc.enable()


def _classes(body: list[ast.stmt], where: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            name = f"{where}{statement.name}"
            yield name, dict(_below_fields(statement.body))
            yield from _classes(statement.body, f"{name}.")
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(statement.body, f"{where}{statement.name}.<locals>.")


def _below_fields(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for statement, after in itertools.pairwise(body):
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        if not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)):
            continue
        if isinstance(after.value.value, str):
            yield statement.target.id, inspect.cleandoc(after.value.value)
