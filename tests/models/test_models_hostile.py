"""A definition is input: what it says becomes names, literals and texts of a module, and never code."""

import ast
import copy
import types
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from reconcile.commands.models_command import source_of_definition
from reconcile.commands.problems import Problem
from reconcile.models.generating import source_of
from tests.models.test_models_generating import OWN

CODE = [
    "import os",
    'x"""\nimport os\n"""',
    "'''\nimport os",
    '"\nimport os\n"',
    "\\",
    '\\"',
    '"',
    '""',
    '"""',
    "\x00",
    "\r\nimport os",
    "\x0cimport os",
    "\u2028import os",
    "\ud800",
    "{__import__('os')}",
    "x: int = __import__('os')",
    "a) + __import__('os'); (",
    "self",
    "cls",
    "__init__",
    "__class__",
    "metadata",
    "replace",
    "key",
    "namespace",
    "Object",
    "",
    "1",
    "ü",
]
HOSTILE = st.sampled_from(CODE) | st.text(max_size=8) | st.tuples(*[st.sampled_from(CODE)] * 2).map("".join)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Each key and each string of a definition."""
    found: list[tuple[Any, ...]] = []
    if isinstance(value, dict):
        for key, inner in value.items():
            found += [(*path, ("key", key)), *places(inner, (*path, key))]
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            found += places(inner, (*path, number))
    elif isinstance(value, str):
        found.append(path)
    return found


DEFINITION = yaml.safe_load(OWN)
PLACES = places(DEFINITION)


def put(definition: Any, path: tuple[Any, ...], text: str) -> None:
    """Replace the string at a path, or rename the key."""
    *above, last = path
    for step in above:
        definition = definition[step]
    if isinstance(last, tuple):
        definition[text] = definition.pop(last[1])
    else:
        definition[last] = text


def is_declaration(statement: ast.stmt) -> bool:
    """Whether a statement of a generated module only declares: no call but of our own words."""
    if isinstance(statement, ast.ImportFrom | ast.Import):
        names = [getattr(statement, "module", None), *(alias.name for alias in statement.names)]
        return (
            names[0] in (None, "collections.abc", "typing", "attrs", "reconcile", "reconcile.models")
            and "os" not in names
        )
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.ClassDef):
        return all(map(is_declaration, statement.body))
    return isinstance(statement, ast.AnnAssign | ast.Pass)


def calls(tree: ast.AST) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


@settings(max_examples=400)
@given(st.lists(st.tuples(st.sampled_from(PLACES), HOSTILE), min_size=1, max_size=2))
def test_a_generated_module_declares_only_classes_whatever_its_definition_contains(
    changes: list[tuple[tuple[Any, ...], str]],
) -> None:
    definition = copy.deepcopy(DEFINITION)
    for path, text in changes:
        try:
            put(definition, path, text)
        except (KeyError, TypeError, IndexError):
            return  # the first change has taken the place of the second away
    try:
        source = source_of_definition(definition, "fox.yaml")
    except Problem:
        return
    tree = ast.parse(source)
    assert all(map(is_declaration, tree.body))
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    assert calls(tree) <= {"frozen", "resource", "Schema", "Rule", "Column", "Scale"} | classes
    source.encode()
    compile(source, "fox.py", "exec")


@pytest.mark.parametrize("name", ["self", "cls", "__init__", "__class__", "key", "name", "replace", "ü", ""])
@pytest.mark.parametrize("where", ["spec", "root"])
def test_a_property_with_any_name_can_be_imported(name: str, where: str) -> None:
    definition = copy.deepcopy(DEFINITION)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    properties = schema["properties"]["spec"]["properties"] if where == "spec" else schema["properties"]
    properties[name] = {"type": "string"}
    module = types.ModuleType("foxes_generated")
    exec(compile(source_of(definition), "foxes_generated.py", "exec"), module.__dict__)
    assert module.Fox.__name__ == "Fox"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("metadata", "name"), 'x"""\nimport os\n"""'),
        (("spec", "group"), "example"),
        (("spec", "names", "kind"), "Fox:\n    pass\nimport os\nclass X"),
        (("spec", "names", "plural"), "foxes'"),
        (("spec", "versions", 0, "name"), "v1\nimport os"),
    ],
)
def test_a_name_that_no_server_accepts_is_refused_by_name(path: tuple[Any, ...], text: str) -> None:
    definition = copy.deepcopy(DEFINITION)
    put(definition, path, text)
    with pytest.raises(Problem, match="that no class can express") as caught:
        source_of_definition(definition, "fox.yaml")
    assert "that an API server accepts" in caught.value.hint


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}])
def test_a_default_that_is_not_json_is_refused(value: Any) -> None:
    definition = copy.deepcopy(DEFINITION)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["ratio"]["default"] = value
    with pytest.raises(Problem, match="that no class can express"):
        source_of_definition(definition, "fox.yaml")
