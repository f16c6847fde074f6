"""The operator's tests: which notebooks sleep, what kopf left behind, and every single fault."""

import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import proxy
import pytest
from notebooks import Notebook, NotebookSpec, notebooks

from reconcile import ObjectMeta
from reconcile.kinds import Deployment
from reconcile.testing import Apply, Delete, Edit, FakeClient, Scenario, Wait, World, run_once, sweep

RUNS = int(os.environ.get("SWEEP_RUNS", "25")) or None  # of the sweep; 0: all
SPEC = NotebookSpec("jupyter:1", idle_after=timedelta(minutes=10))
ADA = Notebook(metadata=ObjectMeta("ada", "default"), spec=SPEC)
MARKER = "kopf.zalando.org/KopfFinalizerMarker"


@pytest.fixture(autouse=True)
def empty_proxy() -> Iterator[None]:
    yield
    proxy.routes.clear()
    proxy.used.clear()


async def replicas(client: FakeClient) -> int | None:
    return (await client.get(Deployment, "ada", "default")).spec.replicas


async def test_a_notebook_gets_its_children_and_its_route() -> None:
    client = FakeClient(ADA)
    done = await run_once(notebooks, ADA, client)
    assert done.writes == [
        "patch notebooks default/ada",  # the finalizer that cleanup= declares
        "apply persistentvolumeclaims default/ada",
        "apply services default/ada",
        "apply deployments default/ada",
        "patch notebooks/status default/ada",
    ]
    assert done.undeclared == []  # `reconcile manifests` allows all that it wrote
    assert proxy.routes == {"ada": "ada.default.svc"}
    assert (await run_once(notebooks, ADA, client)).writes == []


async def test_an_unused_notebook_is_scaled_to_0_until_it_is_used() -> None:
    client = FakeClient(ADA)
    await run_once(notebooks, ADA, client)
    assert await replicas(client) == 1
    client.clock.advance(600)
    done = await run_once(notebooks, ADA, client)
    assert await replicas(client) == 0
    assert done.conditions["Ready"]["reason"] == "Idle"
    proxy.used["ada"] = client.clock.now()
    await run_once(notebooks, ADA, client)
    assert await replicas(client) == 1


async def test_a_notebook_of_the_kopf_operator_is_taken_over() -> None:
    annotations = {"kopf.zalando.org/last-handled-configuration": "{}", "team": "science"}
    client = FakeClient(ADA.with_metadata(annotations=annotations, finalizers=(MARKER,)))
    done = await run_once(notebooks, ADA, client)
    assert done.undeclared == []
    metadata = (await client.get(Notebook, "ada", "default")).metadata
    assert metadata.annotations == {"team": "science"}
    assert metadata.finalizers == (notebooks.finalizer,)
    assert (await run_once(notebooks, ADA, client)).writes == []


async def test_a_notebook_that_was_deleted_before_the_switch_is_cleaned_up() -> None:
    proxy.add_route("ada", "ada.default.svc")
    client = FakeClient(ADA.with_metadata(finalizers=(MARKER,)))
    await client.delete(await client.get(Notebook, "ada", "default"))
    await run_once(notebooks, ADA, client)
    assert proxy.routes == {}
    assert await client.find(Notebook, "ada", "default") is None


def routes_are_those_of_the_notebooks(world: World) -> None:
    assert set(proxy.routes) == {notebook.name for notebook in world.objects(Notebook)}


def test_a_notebook_survives_every_fault() -> None:
    image: dict[str, Any] = {"spec": {"image": "jupyter:2"}}
    scenario = Scenario(
        controllers=lambda: notebooks,
        steps=[Apply(ADA), Edit(ADA, image), Wait(660), Delete((Deployment, "ada")), Delete(ADA)],
        invariants=[routes_are_those_of_the_notebooks],
        quiet_seconds=150,
    )
    print(sweep(scenario, most=RUNS))
