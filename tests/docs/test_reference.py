"""The reference and the public names are the same, and nothing is public by accident."""

import ast
import asyncio
import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import griffe
import pytest

from reconcile.commands.init_command import Project, files_of
from tests.docs.public import PUBLIC, names_of, value_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = DOCS / "reference" / "api"
PACKAGES = ("workqueue", "informers", "reconcile", "controllers")

# A page of the reference names a thing by `::: module.name`, or by a link to where another page has it.
DIRECTIVE = re.compile(r"^::: (\S+)$", re.MULTILINE)
LINK = re.compile(r"\[`(\w+)`\]\[([\w.]+)\]|\[`(\w+)`\]\(\w+\.md\)")

NEW_OPERATOR = Project("web", "Web", "webs", "example.com", sample={"metadata": {"name": "sample"}})

PYTHON = re.compile(r"```python[^\n]*\n(.*?)```", re.DOTALL)

# Modules whose `__all__` is for their own package, or for pytest; nobody is told to import them.
INTERNAL_PACKAGES = frozenset(
    {
        "informers.apimachinery",
        "informers.http",
        "reconcile.adoption",
        "reconcile.client",
        "reconcile.commands",
        "reconcile.controller",
        "reconcile.doctor",
        "reconcile.manager",
        "reconcile.monitoring",
        "reconcile.ops",
        "reconcile.predecessors",
        "reconcile.recording",
        "reconcile.runs",
        "reconcile.shipping",
        "reconcile.status",
        "reconcile.storms",
        "reconcile.testing.exploration",
        "reconcile.testing.fake_services",
        "reconcile.testing.guidance",
        "reconcile.testing.plugin",
        "reconcile.testing.recorded_runs",
        "reconcile.testing.spec_transitions",
    }
)


@cache
def pages() -> dict[str, str]:
    """The part of the reference about each module."""
    found: dict[str, str] = {}
    for page in PAGES.glob("*.md"):
        for part in re.split(r"^(?=#{1,2} `[\w.]+`$)", page.read_text(), flags=re.MULTILINE):
            if title := re.match(r"#{1,2} `([\w.]+)`\n", part):
                found[title[1]] = part
    return found


def listed(module: str) -> list[str]:
    """The names that the reference has of a module."""
    part = pages()[module]
    directives = [path for path in DIRECTIVE.findall(part) if path != module]
    assert all(path.startswith(f"{module}.") for path in directives)
    links = [first or second for first, _, second in LINK.findall(part)]
    return [*(path.rpartition(".")[2] for path in directives), *links]


@cache
def sources() -> griffe.ModulesCollection:
    """What griffe, and so the reference, reads of the four packages."""
    extensions = griffe.load_extensions(f"{ROOT}/tools/signatures.py:Signatures")
    loader = griffe.GriffeLoader(search_paths=[str(ROOT)], extensions=extensions)
    for package in PACKAGES:
        loader.load(package)
    loader.resolve_aliases(external=False)
    return loader.modules_collection


def test_the_reference_has_a_page_for_each_public_module_and_no_other() -> None:
    assert set(pages()) == set(PUBLIC)
    index = (DOCS / "reference" / "index.md").read_text()
    for page in PAGES.glob("*.md"):
        assert f"(api/{page.name})" in index


@pytest.mark.rule("docs-names")
@pytest.mark.parametrize("module", PUBLIC)
def test_the_reference_has_every_public_name_of_a_module_and_no_other(module: str) -> None:
    assert sorted(listed(module)) == sorted(names_of(module))


def test_a_link_in_the_reference_leads_to_the_same_object() -> None:
    for module, part in pages().items():
        for name, path, _ in LINK.findall(part):
            if path:
                home, _, other = path.rpartition(".")
                assert other in listed(home), path
                assert value_of(home, other) is value_of(module, name)


@pytest.mark.rule("docs-names")
@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_has_a_description(module: str) -> None:
    assert [name for name in names_of(module) if not documented(module, name)] == []


def documented(module: str, name: str) -> bool:
    if isinstance(value_of(module, name), ModuleType):
        return bool(value_of(module, name).__doc__)
    found = sources()[module].members[name]
    target = found.final_target if found.is_alias else found
    if target.is_module:  # a package's name that is also that of one of its modules
        target = target.members[name]
    return bool(target.docstring) and all(
        member.docstring
        for member in target.members.values()
        if target.is_class and member.is_function and not member.name.startswith("_")
    )


def test_inherited_members_of_an_internal_base_are_shown() -> None:
    public = [value_of(module, name) for module in PUBLIC for name in names_of(module)]
    text = "".join(pages().values())
    for module in PUBLIC:
        for name in names_of(module):
            value = value_of(module, name)
            if inspect.isclass(value) and inherits_in_silence(value, public):
                shown = f"::: {module}.{name}\n    options:\n      inherited_members: true"
                assert shown in text, shown


def inherits_in_silence(cls: type, public: Sequence[Any]) -> bool:
    """Whether methods come from a class of ours that no page has, nor one between."""
    between = [base for base in cls.__mro__[1:] if base in public]
    return any(
        base.__module__.partition(".")[0] in PACKAGES
        and base not in public
        and not any(issubclass(other, base) for other in between)
        and not issubclass(base, asyncio.AbstractEventLoop)
        and any(not name.startswith("_") and inspect.isroutine(one) for name, one in vars(base).items())
        for base in cls.__mro__[1:]
    )


@pytest.mark.rule("docs-names")
@pytest.mark.parametrize("module", PUBLIC)
def test_the_shown_signature_of_a_class_is_its_real_one(module: str) -> None:
    """Griffe reads source, where attrs and named tuples make theirs when they are imported."""
    for name in set(names_of(module)) - {"Snapshot", "UnsetType"}:  # made by the library alone
        value = value_of(module, name)
        if inspect.isclass(value) and not issubclass(value, BaseException):
            assert shown_parameters(module, name) == real_parameters(value), name


def real_parameters(cls: type) -> set[str]:
    try:
        return set(inspect.signature(cls).parameters) - {"args", "kwargs"}
    except (TypeError, ValueError):
        return set()


def shown_parameters(module: str, name: str) -> set[str]:
    found = sources()[module].members[name]
    init = (found.final_target if found.is_alias else found).all_members.get("__init__")
    if init is None:
        return set()
    target = init.final_target if init.is_alias else init
    return {one.name for one in target.parameters} - {"self", "args", "kwargs"}


def modules() -> Iterator[str]:
    for package in PACKAGES:
        yield package
        path = importlib.import_module(package).__path__
        yield from (module.name for module in pkgutil.walk_packages(path, f"{package}."))


def test_a_package_is_public_or_a_part_of_one() -> None:
    packages = {name for name in modules() if (ROOT / name.replace(".", "/")).is_dir()}
    accidental = {
        name
        for name in packages - set(PUBLIC) - INTERNAL_PACKAGES - {"controllers"}
        if not name.startswith(("reconcile.embedded.", "reconcile.blocks.")) and not name.endswith(".demo")
    }
    assert accidental == set()


def test_pages_and_examples_import_public_modules_alone() -> None:
    pages = [*DOCS.rglob("*.md"), ROOT / "README.md"]
    code = [(page, block) for page in pages for block in PYTHON.findall(page.read_text())]
    code += [(file, file.read_text()) for file in (DOCS / "examples").rglob("*.py")]
    code += [(Path(path), text) for path, text in files_of(NEW_OPERATOR).items() if path.endswith(".py")]
    strangers = {
        f"{file}: {module}.{name}"
        for file, text in code
        for module, name in imported(text)
        if module.partition(".")[0] in PACKAGES and not is_public(module, name)
    }
    assert strangers == set()


def imported(text: str) -> Iterator[tuple[str, str]]:
    if text.startswith(">>>"):
        text = doctest.script_from_examples(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name) for alias in node.names)


def is_public(module: str, name: str) -> bool:
    return f"{module}.{name}" in PUBLIC or (module in PUBLIC and name in names_of(module))
