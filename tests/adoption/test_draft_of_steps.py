"""Sub-handlers of an operator on kopf become steps of its draft: each once, recorded in the status."""

import importlib
import json
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from attrs import evolve

from reconcile.adoption.kopf_draft import Draft
from reconcile.adoption.kopf_draft_modules import modules_of
from reconcile.adoption.kopf_draft_steps import records_field, with_records
from reconcile.adoption.kopf_handlers import BodyFacts, ResourceNames
from reconcile.adoption.kopf_modules import read_operator
from reconcile.models import definition_of
from reconcile.testing import FakeClient, run_once
from tests.adoption.drafted_operators import DEFINITION, drafting

NAMES = ResourceNames("example.com", ["v1"], "Site", "sites", "site")
COPY = "kopf.zalando.org/last-handled-configuration"
OPERATOR = """
import kopf

def one(**_): ...
def two(**_): ...

@kopf.on.create("sites")
def order(spec, **_):
    @kopf.subhandler()
    def server(**_): ...

    kopf.register(one, id="Load_1")
    kopf.register(fn=two)

@kopf.on.create("sites")
@kopf.on.update("sites")
async def tell(**_):
    await kopf.execute(fns={"a": one, "b": two})

@kopf.on.field("sites", field="spec.size")
async def resize(**_):
    await kopf.execute(fns=[one])

@kopf.on.create("sites")
def lines(spec, **_):
    for name in spec["items"]:
        kopf.register(one, id=name)

@kopf.on.delete("sites")
async def drop(**_):
    await kopf.execute(fns=(one, two))

@kopf.on.resume("sites")
async def look(**_):
    await kopf.execute(fns=[one])

def order_steps(**_): ...
kopf.on.create("sites")(order_steps)
"""


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("steps")
    (home / "stepped.py").write_text(OPERATOR)
    with drafting(home) as draft:
        draft("sites-stepped", "stepped.py", "--crd", "crd.yaml")
        yield home / "sites-stepped"


@pytest.fixture
def written(drafted: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The drafted module, as if all its functions were written, each step in one line that notes its call."""
    module = importlib.import_module("sites_stepped.reconciler")
    predecessor = evolve(module.predecessor, unwritten=())
    monkeypatch.setattr(module, "UNWRITTEN", ())
    monkeypatch.setattr(module, "lines_names", lambda site: ["a", "b"])
    monkeypatch.setattr(module, "controller", evolve(module.controller, predecessor=predecessor))
    return module


def site(**annotations: str) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "default", "annotations": annotations}
    return {"apiVersion": "example.com/v1", "kind": "Site", "metadata": metadata, "spec": {"size": 1}}


async def converged(module: ModuleType, client: FakeClient, runs: int = 30) -> dict[str, str]:
    """The states of its steps by their names."""
    for _ in range(runs):
        done = await run_once(module.controller, "default/web", client)
        assert done.error is None
        if done.result is None or not done.result.wants_run:
            stored = await client.get(module.Site, "web", "default")
            return {one.name: one.state for one in stored.status.steps}
    raise AssertionError("no end")


STEPS = ["order-server", "order-load-1", "order-two", "tell-a", "tell-b", "resize-one", "a", "b"]


async def test_each_sub_handler_is_a_step_that_is_carried_out_once_in_order(written: ModuleType) -> None:
    client = FakeClient(definition_of(written.Site), site())
    assert await converged(written, client) == dict.fromkeys(STEPS, "Done")
    assert (await run_once(written.controller, "default/web", client)).writes == []


async def test_an_object_that_kopf_has_handled_gets_the_steps_of_its_last_change_alone(
    written: ModuleType,
) -> None:
    handled = {COPY: json.dumps({"spec": {"size": 1}})}
    client = FakeClient(definition_of(written.Site), site(**handled))
    assert await converged(written, client) == dict.fromkeys(STEPS, "Done")
    stored = await client.get(written.Site, "web", "default")
    rounds = {one.name: (one.round, one.message) for one in stored.status.steps}
    assert rounds == dict.fromkeys(STEPS, (1, "carried out by sites-stepped on kopf"))
    await client.modify(
        written.Site, "web", "default", lambda one: one.replace(spec=evolve(one.spec, size=2))
    )
    await converged(written, client)
    stored = await client.get(written.Site, "web", "default")
    again = {one.name for one in stored.status.steps if one.round == 2}
    assert again == {"tell-a", "tell-b", "resize-one"}


async def test_no_step_begins_before_it_is_written_and_a_deletion_waits_for_its_steps(drafted: Path) -> None:
    module = importlib.import_module("sites_stepped.reconciler")
    assert {"order_server", "lines_each", "lines_names", "drop_one"} <= {*module.UNWRITTEN}
    client = FakeClient(definition_of(module.Site), site())
    assert await converged(module, client) == {}
    await client.delete(await client.get(module.Site, "web", "default"))
    done = await run_once(module.controller, "default/web", client)
    assert done.result is not None
    assert done.result.requeue_after == 60


async def test_an_object_goes_when_the_steps_of_its_deletion_are_through(written: ModuleType) -> None:
    client = FakeClient(definition_of(written.Site), site())
    await converged(written, client)
    await client.delete(await client.get(written.Site, "web", "default"))
    for _ in range(3):
        await run_once(written.controller, "default/web", client)
    assert await client.find(written.Site, "web", "default") is None


async def test_a_draft_with_steps_passes_its_own_tests(drafted: Path) -> None:
    spec = spec_from_file_location("stepped_tests", drafted / "tests/test_sites_stepped.py")
    assert spec is not None
    assert spec.loader is not None
    tests = module_from_spec(spec)
    spec.loader.exec_module(tests)
    await tests.test_an_object_converges()
    await anyio.to_thread.run_sync(tests.test_it_survives_every_fault)


def test_each_step_names_the_handlers_of_kopf_that_it_replaces(drafted: Path) -> None:
    module = importlib.import_module("sites_stepped.reconciler")
    assert [step.replaces for step in module.order_steps.steps] == [
        ("order/order.<locals>.server",), ("order/Load_1",), ("order/two",),
    ]  # fmt: skip
    assert [step.replaces for step in module.tell_steps.steps] == [("tell/a",), ("tell/b",)]
    assert [step.replaces for step in module.resize_steps.steps] == [("resize/spec.size/one",)]
    assert [step.replaces for step in module.drop_steps.steps] == [(), ()]


def test_what_became_of_sub_handlers_is_said_in_moving_md(drafted: Path) -> None:
    text = (drafted / "MOVING.md").read_text()
    assert "Sub-handlers of `order`, `tell`, `resize`, `lines`, `drop` of Site are steps" in text
    assert "Those of `lines` are known to a call of it alone: `lines_names` has to name them." in text
    assert "Sub-handlers of `look` of Site are called in each run: kopf called them at each start." in text


def test_a_kind_of_kubernetes_has_no_place_for_records_so_sub_handlers_are_called_in_each_run(
    tmp_path: Path,
) -> None:
    file = tmp_path / "maps.py"
    file.write_text(OPERATOR.replace('"sites"', '"configmaps"'))
    names = ResourceNames("", ["v1"], "ConfigMap", "configmaps", "configmap")
    draft = Draft("maps", "ConfigMap", read_operator([str(file)], []), names, domain="example.com")
    texts = modules_of([draft], "maps")
    assert "Steps(" not in texts["maps/reconciler.py"]
    assert "await order_server(ctx)" in texts["maps/reconciler.py"]
    assert "are called in each run: the kind has no place for records." in texts["MOVING.md"]


@pytest.mark.parametrize(
    ("body", "known", "others"),
    [
        ("kopf.register(one)", ["one"], False),
        ("kopf.register(lambda **_: None)", [], True),
        ("kopf.register(one, id=name)", [], True),
        ("kopf.execute(fns={**more, 'a': one})", ["a"], True),
        ("kopf.execute(fns=[one, spec['f']])", ["one"], True),
        ("kopf.execute(fns=made())", [], True),
        ("kopf.execute(handlers=made())", [], True),
        ("kopf.execute()", [], False),
        ("kopf.execute(**given)", [], True),
        ("register(one)", [], False),
    ],
)
def test_what_a_call_registers_is_known_as_far_as_it_is_literal(
    tmp_path: Path, body: str, known: list[str], others: bool
) -> None:
    file = tmp_path / "calls.py"
    file.write_text(f"import kopf\n@kopf.on.create('sites')\ndef keep(spec, name, **_):\n    {body}\n")
    (handler,) = read_operator([str(file)], []).handlers
    facts = handler.facts or BodyFacts()
    assert ([*facts.subhandlers], facts.makes_subhandlers) == (known, others)


@pytest.mark.parametrize(
    ("status", "field"),
    [
        (None, "steps"),
        ({"type": "object"}, "steps"),
        ({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, "steps"),
        ({"type": "object", "nullable": True, "properties": {"steps": {"type": "string"}}}, "subHandlers"),
    ],
)
def test_the_model_gets_a_field_for_the_records_whatever_its_status_is(status: Any, field: str) -> None:
    definition: dict[str, Any] = json.loads(json.dumps(DEFINITION))
    properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties.pop("status")
    properties.update({"status": status} if status else {})
    before = json.dumps(definition)
    assert records_field(definition) == field
    names: dict[str, Any] = {"__name__": "models"}
    exec(compile(with_records(definition, field), "models.py", "exec", dont_inherit=True), names)
    made = definition_of(names["Site"])["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert "round" in made["status"]["properties"][field]["items"]["properties"]
    assert made["status"].get("x-kubernetes-preserve-unknown-fields") == (status or {}).get(
        "x-kubernetes-preserve-unknown-fields"
    )
    assert json.dumps(definition) == before
