"""A manager does not start while kopf operators are alive by their peering objects."""

from collections.abc import Mapping
from typing import Any

import pytest

from informers import APIResource
from reconcile import Controller, Predecessor
from reconcile.errors import PredecessorActive
from reconcile.kinds import Pod
from reconcile.predecessors import PEERINGS, entry_of
from reconcile.testing import FaultyTransport
from tests.helpers.pods import pod
from tests.helpers.scenarios import in_world
from tests.manager.test_takeover import Played, deployment, played, stamp

pytestmark = pytest.mark.rule("takeover-kopf")

CLUSTER, NAMESPACED = PEERINGS[:2]


def stamps(**options: Any) -> Controller[Pod]:
    predecessor = Predecessor.kopf("Rival", **options)
    return Controller(
        Pod, stamp, writes=[Pod], name="stamps", predecessor=predecessor, operator="example.com"
    )


def definition(peering: APIResource) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": peering.plural, "kind": peering.kind, "singular": peering.kind.lower()}
    scope = "Namespaced" if peering.namespaced else "Cluster"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": peering.name},
        "spec": {"group": peering.group, "scope": scope, "names": names, "versions": [version]},
    }


async def with_peering(
    here: Played, peering: APIResource = CLUSTER, *, priority: int = 0, **status: Any
) -> None:
    await here.user.create(definition(peering))
    metadata = {"name": "default"} | ({"namespace": "default"} if peering.namespaced else {})
    entry = entry_of(priority, 60, here.clock.now())
    head = {"apiVersion": peering.api_version, "kind": peering.kind, "metadata": metadata}
    made = await here.user.create(head)
    # kopf's definitions have no subresource for the status.
    await here.user.raw.merge(made, {"status": {"site-operator-0": entry, **status}}, guard={})


async def refusal(here: Played, manager: Mapping[str, Any] = {}, **options: Any) -> str:
    """Why a manager with these options of the predecessor does not start; empty: it does."""
    try:
        await here.runs(here.manager(stamps(**options), **manager))
    except BaseException as error:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if not isinstance(error, PredecessorActive):
            raise
        if here.writes:
            raise AssertionError(here.writes) from None
        return str(error)
    return ""


@pytest.mark.parametrize("peering", [CLUSTER, NAMESPACED])
@in_world(played)
async def test_a_live_peer_refuses_the_start_until_its_entry_expires(
    here: Played, peering: APIResource
) -> None:
    await here.user.create(pod("one"))
    await with_peering(here, peering)
    here.clock.advance(20)
    said = await refusal(here)
    place = "default/default" if peering.namespaced else "default"
    assert f"peer 'site-operator-0' in {peering.kind} {place} is alive for 40 s. " in said
    assert "freeze it with --freeze-predecessor" in said
    here.clock.advance(41)
    assert await refusal(here) == ""
    assert here.writes


@in_world(played)
async def test_peers_of_another_peering_object_do_not_count(here: Played) -> None:
    await with_peering(here)
    assert await refusal(here, peering="other") == ""
    assert await refusal(here, peering="") == ""


@in_world(played)
async def test_what_kopf_wrote_last_does_not_count_where_it_signs_while_alive(here: Played) -> None:
    made = await here.user.create(pod("one"))
    kopf = here.user.with_options(field_manager="kopf")
    await kopf.raw.merge(made, {"status": {"message": "x"}}, guard={}, subresource="status")
    assert "field manager 'kopf' wrote the status" in await refusal(
        here
    )  # nothing else says that it has gone
    assert await refusal(here, deployments=("site-operator",)) == ""

    here.recorded = FaultyTransport(here.transport)
    await here.user.create(deployment("site-operator", "some", 1))
    assert "Deployment default/site-operator" in await refusal(here, deployments=("site-operator",))


@in_world(played)
async def test_a_peering_object_without_peers_outweighs_a_recent_status(here: Played) -> None:
    made = await here.user.create(pod("one"))
    kopf = here.user.with_options(field_manager="kopf")
    await kopf.raw.merge(made, {"status": {"message": "x"}}, guard={}, subresource="status")
    await with_peering(here)
    here.clock.advance(61)
    assert await refusal(here) == ""


@in_world(played)
async def test_a_damaged_peering_object_starts_no_second_operator(here: Played) -> None:
    await with_peering(here, damaged={"lastseen": "soon"}, broken=5)
    here.clock.advance(3600)
    assert "peer 'damaged'" in await refusal(here)
