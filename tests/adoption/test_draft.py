"""The operator that is drafted from one on kopf."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import anyio
import click
import pytest
import yaml
from attrs import evolve

from reconcile import Controller
from reconcile.adoption.kopf_draft import Draft
from reconcile.adoption.kopf_draft_modules import modules_of
from reconcile.adoption.kopf_handlers import ResourceNames
from reconcile.adoption.kopf_modules import read_operator
from reconcile.commands.main import reconcile as reconcile_command
from reconcile.errors import UnwrittenDraft
from reconcile.models import definition_of
from reconcile.testing import FakeClient, run_once
from tests.adoption.drafted_operators import DEFINITION, FLEET, HELD, MOVED, SITES, drafting
from tests.commands.helpers import complaint

ROOT = Path(__file__).parents[2]
INNER = """
import kopf
from kopf import subhandler

@kopf.on.create("sites")
def outer(spec, **_):
    @kopf.subhandler()
    def first(**_): ...

    @subhandler(id='se"c\\\\ond')
    def other(**_): ...

    for name in spec["items"]:
        @kopf.subhandler(id=f"item-{name}")
        def each(**_): ...
"""
SEVERAL = """
import kopf

@kopf.on.delete("sites")
@kopf.on.create("sites")
@kopf.daemon("sites")
@kopf.on.validate("sites")
@kopf.on.event("pods")
def keep(**_): ...
"""
NAMES = ResourceNames("example.com", ["v1"], "Site", "sites", "site")


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with three drafts: `sites-moved` of each decorator, `sites-held` of cleanups, and `fleet`."""
    home = tmp_path_factory.mktemp("drafts")
    with drafting(home) as draft:
        for each in (MOVED, HELD, FLEET):
            draft(*each)
        yield home


def controller_of(package: str) -> Controller[Any]:
    value = importlib.import_module(f"{package}.reconciler").controller
    assert isinstance(value, Controller)
    return value


@pytest.mark.timeout(180)
def test_drafts_pass_mypy_strict(drafted: Path) -> None:
    names = ("sites-moved", "sites-held", "fleet")
    files = [f"{name}/{part}" for name in names for part in (name.replace("-", "_"), "tests")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *files],
        cwd=drafted,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=170,
    )
    assert "no issues found in 22 source files" in done.stdout, done.stdout


async def test_a_draft_passes_its_own_tests(drafted: Path) -> None:
    spec = spec_from_file_location("sites_moved_tests", drafted / "sites-moved/tests/test_sites_moved.py")
    assert spec is not None
    assert spec.loader is not None
    tests = module_from_spec(spec)
    spec.loader.exec_module(tests)
    await tests.test_an_object_converges()
    await anyio.to_thread.run_sync(tests.test_it_survives_every_fault)


def test_each_handler_has_a_place_or_is_named_as_one_without(drafted: Path) -> None:
    moving = (drafted / "sites-moved" / "MOVING.md").read_text()
    rows = dict(line.strip("| ").split(" | ") for line in moving.splitlines() if line.startswith("| "))
    went = {where.split(",")[0]: here for where, here in rows.items()}
    assert went["keep"] == "`keep` in `sites_moved/reconciler.py`"
    assert went["check"] == "`check` in `sites_moved/admission.py`"
    assert went["configure"] == "`configure` in `sites_moved/__main__.py`"
    assert went["follow"].startswith("`owns=[Pod]`")
    assert went["apart"] == "not drafted: it is for category all"
    operator = read_operator([SITES], [])
    assert {one.place.name for one in operator.handlers} == {*went} - {"on kopf", "---"}


def test_moving_md_has_both_ways_over_and_the_way_back(drafted: Path) -> None:
    text = (drafted / "sites-held" / "MOVING.md").read_text()
    for line in (
        "reconcile adopt kopf audit held.py",
        "reconcile adopt kopf switch held.py --deployment NAMESPACE/NAME",
        "reconcile adopt kopf switch held.py --verify",
        "reconcile adopt kopf back sites_held --dry-run",
    ):
        assert f"    {line}\n" in text
        options_exist(line)
    assert "`reconcile run sites_held --freeze-predecessor`" in text


def options_exist(line: str) -> None:
    """Fails for a command, or an option of it, that does not exist."""
    _, *names = line.replace("--dry-run", "").split()
    command: click.Command = reconcile_command
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), names.pop(0))
        assert found is not None
        command = found
    known = {option for parameter in command.params for option in parameter.opts}
    assert {name for name in line.split() if name.startswith("--")} <= known


def test_the_controller_follows_from_the_handlers(drafted: Path) -> None:
    controller = controller_of("sites_moved")
    assert controller.every == 30
    assert [kind.__name__ for kind in controller.owns] == ["ConfigMap", "Pod"]
    assert list(controller.indexes) == ["by-site"]
    assert controller.predecessor is not None
    traces = controller.predecessor.traces
    assert traces is not None
    assert traces.finalizer == "example.com/sites"
    assert traces.peering == "sites"
    assert traces.prefix == "sites.example.com"
    assert controller.finalizers == ("example.com/sites",)
    assert controller.cleanup is None
    assert controller.on_deleted is not None
    assert controller.background is not None
    assert [one.refuses is not None and one.defaults is not None for one in controller.admission] == [True]


def test_each_sub_handler_has_a_function_that_is_a_step_of_its_handler(drafted: Path) -> None:
    module = importlib.import_module("sites_moved.reconciler")
    assert "resize_part" in module.UNWRITTEN
    assert module.resize_part.__doc__ == "On kopf: the sub-handler part of resize."
    assert [step.carry_out for step in module.resize_steps.steps] == [module.resize_part]
    assert "await resize_steps.carry_out(ctx)" in inspect.getsource(module.resize)


def test_sub_handlers_are_read_by_their_ids_as_far_as_those_are_literals(tmp_path: Path) -> None:
    file = tmp_path / "inner.py"
    file.write_text(INNER)
    (handler,) = read_operator([str(file)], []).handlers
    assert handler.facts is not None
    assert handler.facts.subhandlers == {"first": "outer.<locals>.first", 'se"c\\ond': 'se"c\\ond'}
    texts = modules_of([Draft("sites", "Site", read_operator([str(file)], []), NAMES)], "sites")
    compile(texts["sites/reconciler.py"], "reconciler.py", "exec")


def test_labels_that_all_handlers_ask_for_become_the_selector(drafted: Path) -> None:
    assert controller_of("sites_held").selector == "tier=web,!old"
    assert controller_of("sites_moved").selector is None


async def test_a_cleanup_that_is_not_written_keeps_its_object(drafted: Path) -> None:
    controller = controller_of("sites_held")
    metadata = {
        "name": "web",
        "namespace": "default",
        "labels": {"tier": "web"},
        "finalizers": ["kopf.zalando.org/KopfFinalizerMarker"],
    }
    site = {"apiVersion": "example.com/v1", "kind": "Site", "metadata": metadata}
    client = FakeClient(definition_of(controller.kind), site)
    await client.delete(await client.get(controller.kind, "web", "default"))
    done = await run_once(controller, "default/web", client)
    assert done.error is None
    assert done.result is not None
    assert done.result.wants_run
    kept = await client.get(controller.kind, "web", "default")
    assert kept.metadata.finalizers


def test_an_existing_folder_is_left_alone(
    drafted: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(drafted)
    before = {file: file.read_bytes() for file in drafted.rglob("*.py")}
    said = complaint(capsys, "adopt", "kopf", "draft", "sites-held", "held.py", "--crd", "crd.yaml")
    assert said.startswith("error: sites-held already exists: ")
    assert {file: file.read_bytes() for file in drafted.rglob("*.py")} == before


def test_a_definition_that_no_handler_is_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "on_pods.py").write_text("import kopf\n@kopf.on.event('pods')\ndef follow(**_): ...\n")
    (tmp_path / "crd.yaml").write_text(yaml.safe_dump(dict(DEFINITION)))
    monkeypatch.chdir(tmp_path)
    said = complaint(capsys, "adopt", "kopf", "draft", "sites-none", "on_pods.py", "--crd", "crd.yaml")
    assert said.startswith("error: no handler is for sites.example.com: ")
    assert not (tmp_path / "sites-none").exists()


def test_the_same_operator_gives_the_same_draft() -> None:
    first, second = (
        modules_of([Draft("sites", "Site", read_operator([SITES], []), NAMES)], "sites") for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("value", ["a'b", '"', "a b", "a,b=c", "\\", ""])
def test_a_label_that_no_selector_can_have_is_left_to_the_author(tmp_path: Path, value: str) -> None:
    file = tmp_path / "strange.py"
    file.write_text(
        f"import kopf\n@kopf.on.create('sites', labels={{'tier': {value!r}}})\ndef keep(**_): ...\n"
    )
    draft = Draft("sites", "Site", read_operator([str(file)], []), NAMES)
    assert draft.selector == ""
    assert 'selector="' not in modules_of([draft], "sites")["sites/reconciler.py"]


@pytest.mark.parametrize("name", ["a'b", '"""', "line\nline", "\\"])
def test_strange_names_and_docstrings_stay_text(tmp_path: Path, name: str) -> None:
    file = tmp_path / "strange.py"
    file.write_text(f"import kopf\n@kopf.index('pods', id={name!r})\ndef found(**_):\n    {name!r}\n")
    draft = Draft("sites", "Site", read_operator([str(file)], []), NAMES)
    texts = modules_of([draft], "sites")
    for path, text in texts.items():
        if path.endswith(".py"):
            compile(text, path, "exec")
    indexes = re.search(r"indexes=\{(.*): Index\(Pod, found\)\}", texts["sites/reconciler.py"])
    assert indexes is not None
    assert ast.literal_eval(indexes[1]) == name


def test_a_function_with_several_decorators_becomes_one_for_each_thing_that_it_does(tmp_path: Path) -> None:
    file = tmp_path / "several.py"
    file.write_text(SEVERAL)
    texts = modules_of([Draft("sites", "Site", read_operator([str(file)], []), NAMES)], "sites")
    tree = ast.parse(texts["sites/reconciler.py"])
    functions = [one for one in tree.body if isinstance(one, ast.AsyncFunctionDef)]
    docs = {one.name: ast.get_docstring(one) or "" for one in functions}
    assert [*docs] == ["keep", "reconcile_site", "keep_cleanup", "keep_daemon"]
    assert len(functions) == len(docs)
    assert "@kopf.on.create" in docs["keep"]
    assert "@kopf.on.delete" not in docs["keep"]
    assert "@kopf.on.delete" in docs["keep_cleanup"]
    assert "cleanup=keep_cleanup," in texts["sites/reconciler.py"]
    assert "def keep_check(" in texts["sites/admission.py"]
    assert "`keep` in `sites/reconciler.py`, `keep_cleanup` in" in texts["MOVING.md"]


async def test_a_draft_takes_no_object_over_until_all_its_functions_are_written(drafted: Path) -> None:
    module = importlib.import_module("sites_held.reconciler")
    controller = controller_of("sites_held")
    assert module.UNWRITTEN == (
        "controller_2", "lambda_2", "reconcile_site_2", "cleanup_2", "follow", "listen",
        "controller_2_names", "controller_2_each",
    )  # fmt: skip
    copy = {"kopf.zalando.org/last-handled-configuration": "{}"}
    metadata = {"name": "web", "namespace": "default", "labels": {"tier": "web"}, "annotations": copy}
    site = {"apiVersion": "example.com/v1", "kind": "Site", "metadata": metadata}
    client = FakeClient(definition_of(controller.kind), site)
    done = await run_once(controller, "default/web", client)
    assert isinstance(done.error, UnwrittenDraft)
    assert done.writes == []
    assert controller.predecessor is not None
    written = evolve(controller, predecessor=evolve(controller.predecessor, unwritten=()))
    assert (await run_once(written, "default/web", client)).error is None
    assert "kopf" not in str((await client.get(controller.kind, "web", "default")).metadata.annotations)
