"""The house: what each package ships, how large a room may be, which room may know which."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parent.parent
PACKAGES = ("workqueue", "informers", "reconcile", "controllers")
LINES_OF_A_ROOM = 500

SHARED_SCRIPTS = {f"tests/conformance/{name}.py" for name in ("run", "objects/replay", "histories/replay")}
"""They come with the recordings that they replay."""

# A file here is longer than a room should be, and says why it is one room all the same.
LONG_FILES: dict[str, str] = {}

# What the API server may take from the floor below it, so that it could be lifted out of this house.
SEAMS = (
    "informers.apimachinery",
    "informers.broadcast",
    "informers.clock",
    "informers.api_errors",
    "informers.loopback",
    "informers.resource",
    "informers.transport",
)

# What a bundled controller may import: the names that any operator's author has.
PUBLIC = (
    "reconcile",
    "reconcile.blocks",
    "reconcile.conditions",
    "reconcile.errors",
    "reconcile.models",
    "reconcile.kinds",
    "reconcile.owners",
    "reconcile.predicates",
    "reconcile.replicas",
    "reconcile.simulation",
    "reconcile.testing",
    "reconcile.webhooks",
)


ROOT_OF_RECONCILE = {"conditions", "errors", "owners", "predicates", "replicas"}


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def name_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(file: Path) -> Iterator[str]:
    """The modules that a file imports, those for types alone and those inside of functions too."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = node.module or ""
            if node.level:
                package = (
                    name_of(file).split(".") if file.name == "__init__.py" else name_of(file).split(".")[:-1]
                )
                home = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
            for alias in node.names:
                part = f"{home}.{alias.name}"
                yield part if (ROOT / f"{part.replace('.', '/')}.py").is_file() else home


def within(name: str, *rooms: str) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_typed_and_its_init_lists_its_public_names(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()
    for face in (ROOT / package).rglob("__init__.py"):
        assigned = {
            target.id
            for node in ast.parse(face.read_text()).body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        assert "__all__" in assigned, f"{face.relative_to(ROOT)} has no __all__"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_with_modules_is_a_package(package: str) -> None:
    folders = {file.parent for file in modules(package)}
    assert folders, f"{package} has no modules"
    assert [folder.name for folder in folders if not (folder / "__init__.py").exists()] == []


@pytest.mark.parametrize("folder", [*PACKAGES, "tests", "tools"])
def test_a_module_has_at_most_500_lines_unless_it_is_listed(folder: str) -> None:
    too_long = [
        f"{name}: {lines} lines"
        for file in modules(folder)
        if (name := str(file.relative_to(ROOT))) not in LONG_FILES
        and name not in SHARED_SCRIPTS
        and (lines := len(file.read_text().splitlines())) > LINES_OF_A_ROOM
    ]
    assert too_long == []


def test_a_module_listed_as_long_is_long() -> None:
    for name, reason in LONG_FILES.items():
        assert reason
        assert len((ROOT / name).read_text().splitlines()) > LINES_OF_A_ROOM


def test_no_modules_import_each_other_directly_or_indirectly() -> None:
    graph = {name_of(file): set(imports(file)) for package in PACKAGES for file in modules(package)}
    TopologicalSorter({name: graph[name] & graph.keys() - {name} for name in graph}).prepare()


def test_the_root_of_reconcile_contains_only_the_public_modules() -> None:
    files = {file.stem for file in (ROOT / "reconcile").glob("*.py")}
    assert {name for name in files if not name.startswith("_")} == ROOT_OF_RECONCILE


def test_the_embedded_server_imports_only_itself_and_the_allowed_modules() -> None:
    strangers = {
        f"{name_of(file)} imports {name}"
        for file in modules("reconcile/embedded")
        for name in imports(file)
        if within(name, *PACKAGES) and not within(name, "reconcile.embedded", *SEAMS)
    }
    assert strangers == set()


def test_modules_shared_by_client_and_server_import_only_each_other() -> None:
    strangers = {
        f"{name_of(file)} imports {name}"
        for file in modules("informers/apimachinery")
        for name in imports(file)
        if within(name, *PACKAGES) and not within(name, "informers.apimachinery")
    }
    assert strangers == set()


def test_the_modules_shared_with_the_embedded_server_need_no_http_library() -> None:
    names = [name_of(file) for file in modules("informers") if within(name_of(file), *SEAMS)]
    assert len(names) > len(SEAMS)
    heavy = "{'aiohttp', 'kubernetes_asyncio', 'yarl', 'yaml'}"
    check = (
        f"import sys; {'; '.join(f'import {name}' for name in names)}; print({heavy} & sys.modules.keys())"
    )
    assert subprocess.check_output([sys.executable, "-c", check], cwd=ROOT, text=True) == "set()\n"


def test_bundled_controllers_use_only_public_names() -> None:
    strangers = {
        f"{name_of(file)} imports {name}"
        for file in modules("controllers")
        for name in imports(file)
        if within(name, *PACKAGES) and not within(name, "controllers") and name not in PUBLIC
    }
    assert strangers == set()


def test_bundled_controllers_import_each_other_relatively() -> None:
    """An operator's repository often has a `controllers` of its own, which an absolute name would find."""
    absolute = {
        f"{file.relative_to(ROOT)}: {ast.unparse(node)}"
        for file in modules("controllers")
        for node in ast.walk(ast.parse(file.read_text()))
        if (isinstance(node, ast.ImportFrom) and not node.level and within(node.module or "", "controllers"))
        or (isinstance(node, ast.Import) and any(within(alias.name, "controllers") for alias in node.names))
    }
    assert absolute == set()


def test_the_wheel_ships_exactly_the_five_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert sorted(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == sorted(PACKAGES)

    builder = WheelBuilder(str(ROOT))
    shipped = {file.distribution_path for file in builder.recurse_included_files()}
    assert {path.partition("/")[0] for path in shipped} == set(PACKAGES)
    for package in PACKAGES:
        assert f"{package}/py.typed" in shipped
    data = {str(file.relative_to(ROOT)) for file in (ROOT / "reconcile" / "embedded").rglob("*.json")}
    page = {str(file.relative_to(ROOT)) for file in (ROOT / "reconcile" / "status" / "page").iterdir()}
    assert {"reconcile/status/page/index.html", *page, *data} <= shipped
