"""A manager that freezes the operator on kopf which it replaces, instead of waiting for its end."""

import logging
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from attrs import evolve

from informers import APIResource, Key
from informers.cancellation import leaf_errors
from reconcile import LeaderElection, Manager
from reconcile.controller.permissions import Permission, freeze_permissions
from reconcile.errors import ConfigurationError, PredecessorActive
from reconcile.manager.predecessor_freeze import LIFETIME, RENEWAL, SETTLING
from reconcile.predecessors import Peer, entry_of, pausing, peers_in
from reconcile.sharding.options import Sharding
from reconcile.shipping.installation import Installation, documents_of
from reconcile.testing import Fault, FaultyTransport, Refuse, When
from tests.helpers.pods import pod
from tests.helpers.scenarios import in_world
from tests.manager.test_kopf_peers_alive import CLUSTER, NAMESPACED, definition, refusal, stamps, with_peering
from tests.manager.test_takeover import Played, deployment, played

pytestmark = pytest.mark.rule("takeover-kopf")

OWN = "reconcile/sites"
HEAD = {"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": "default"}}
SIGNED = f"PATCH {CLUSTER.path('', 'default')}"
STAMPED = "PATCH /api/v1/namespaces/default/pods/one"


def freezing(here: Played, **options: Any) -> Manager:
    return here.manager(stamps(deployments="old"), name="sites", freeze_predecessor=True, **options)


async def refused(here: Played, **options: Any) -> str:
    return await refusal(here, {"name": "sites", "freeze_predecessor": True}, **options)


async def peers(here: Played, resource: APIResource = CLUSTER) -> tuple[Peer, ...]:
    namespace = "default" if resource.namespaced else ""
    found = await here.user.raw.snapshot(resource, Key(namespace, "default"), live=True)
    assert found is not None
    return peers_in(found.to_dict())


async def is_frozen(here: Played, resource: APIResource = CLUSTER) -> bool:
    return pausing(await peers(here, resource), OWN, here.clock.now())


async def sign_of_life(here: Played) -> None:
    """An operator on kopf renews its entry."""
    found = await here.user.raw.snapshot(CLUSTER, Key("", "default"), live=True)
    assert found is not None
    entry = entry_of(0, 60, here.clock.now())
    await here.user.raw.patch(CLUSTER, found.key, {"status": {"site-operator-0": entry}}, guard={})


@in_world(played)
async def test_a_live_operator_is_frozen_and_has_time_to_end_its_handlers_before_the_first_run(
    here: Played,
) -> None:
    await here.user.create(pod("one"))
    await with_peering(here)
    async with anyio.create_task_group() as group:
        group.start_soon(here.server.run)
        group.start_soon(freezing(here).run)
        await anyio.sleep(SETTLING - 0.1)
        assert here.writes == [SIGNED]
        assert [peer.identity for peer in await peers(here)] == ["site-operator-0", OWN]
        assert await is_frozen(here)
        await anyio.sleep(0.2)
        assert here.writes == [SIGNED, STAMPED]
        group.cancel_scope.cancel()


@in_world(played)
async def test_the_freeze_is_renewed_while_the_manager_works_and_expires_later(here: Played) -> None:
    await with_peering(here, NAMESPACED)
    await here.runs(freezing(here), LIFETIME + SETTLING + 1)
    assert len(here.writes) == 1 + LIFETIME // RENEWAL
    here.clock.advance(LIFETIME - RENEWAL - 1)
    (own,) = [peer for peer in await peers(here, NAMESPACED) if peer.identity == OWN]
    assert own.is_alive(here.clock.now())
    here.clock.advance(RENEWAL + 1)
    assert not own.is_alive(here.clock.now())


@in_world(played)
async def test_a_renewal_that_fails_is_repeated_and_a_peering_object_that_has_gone_is_let_go(
    here: Played, caplog: pytest.LogCaptureFixture
) -> None:
    await with_peering(here)
    second = When("patch", "*/clusterkopfpeerings/default", nth=2)
    here.recorded.add(Fault(second, Refuse(403, "Forbidden", "no")))
    async with anyio.create_task_group() as group:
        group.start_soon(here.server.run)
        with caplog.at_level(logging.WARNING, "reconcile"):
            await group.start(freezing(here).run)
            await anyio.sleep(2 * RENEWAL + 1)
            assert len(here.writes) == 3
            assert "the freeze of the predecessor was not renewed" in caplog.text
            caplog.clear()
            await here.user.delete(await here.user.raw.unstructured(HEAD))
            await anyio.sleep(3 * RENEWAL)
        assert len(here.writes) == 4
        assert caplog.text == ""
        group.cancel_scope.cancel()


@in_world(played)
async def test_pods_of_an_operator_that_is_frozen_may_stay_and_others_may_not(here: Played) -> None:
    await here.user.create(deployment("old", "some", 1))
    await with_peering(here)
    assert "Deployment default/old has 1 replicas" in await refused(here, deployments="old", peering="other")
    assert await refused(here, deployments="old") == ""
    here.clock.advance(61)
    here.recorded = FaultyTransport(here.transport)
    assert "Deployment default/old has 1 replicas" in await refused(here, deployments="old")


@in_world(played)
async def test_a_peer_that_would_not_pause_refuses_the_start(here: Played) -> None:
    await with_peering(here, developer=entry_of(666, 60, here.clock.now()))
    said = await refused(here)
    assert "peer 'developer' in ClusterKopfPeering default is alive for 60 s. Stop it first, or start" in said


@in_world(played)
async def test_the_start_is_refused_where_the_entry_is_not_kept(here: Played) -> None:
    pruning = definition(CLUSTER)
    pruning["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object"}
    await here.user.create(pruning)
    await here.user.create(HEAD)
    try:
        await here.runs(freezing(here))
    except BaseExceptionGroup as group:
        (error,) = leaf_errors(group)
    assert isinstance(error, PredecessorActive)
    assert error.found.startswith("ClusterKopfPeering default keeps no entries: its definition needs ")


@in_world(played)
async def test_an_entry_is_kept_where_the_status_is_a_subresource(here: Played) -> None:
    apart = definition(CLUSTER)
    apart["spec"]["versions"][0]["subresources"] = {"status": {}}
    await here.user.create(apart)
    await here.user.create(HEAD)
    await here.runs(freezing(here))
    assert here.writes == [SIGNED, f"{SIGNED}/status"]
    assert await is_frozen(here)


@in_world(played)
async def test_a_standby_freezes_nothing_before_it_leads(here: Played) -> None:
    await with_peering(here)
    await here.user.create(pod("one"))
    held = here.manager(name="first", leader_election=LeaderElection("sites", identity="first"))
    standby = freezing(here, leader_election=LeaderElection("sites", identity="standby"))
    async with anyio.create_task_group() as group:
        group.start_soon(here.server.run)
        await group.start(held.run)
        await group.start(standby.run)
        await anyio.sleep(60)
        assert not await is_frozen(here)
        await sign_of_life(here)
        held.stop()
        await anyio.sleep(5)
        assert await is_frozen(here)  # the check is before the settling
        group.cancel_scope.cancel()


@in_world(played)
async def test_a_replica_that_shares_the_objects_freezes_too(here: Played) -> None:
    await with_peering(here)
    await here.runs(freezing(here, sharding=Sharding("ring", identity="a")))
    assert await is_frozen(here)


@in_world(played)
async def test_each_of_several_clusters_is_frozen(here: Played) -> None:
    other = Played()
    for town in (here, other):
        await with_peering(town)
    clusters = {"east": here.transport, "west": other.transport}
    manager = Manager(
        stamps(deployments="old"), name="sites", freeze_predecessor=True, clusters=clusters, clock=here.clock
    )
    async with anyio.create_task_group() as group:
        for town in (here, other):
            group.start_soon(town.server.run)
        group.start_soon(manager.run)
        await anyio.sleep(RENEWAL + SETTLING + 5)
        for town in (here, other):
            own = [peer for peer in await peers(town) if peer.identity == OWN]
            assert own[0].seconds_left(town.clock.now()) > LIFETIME - RENEWAL
        group.cancel_scope.cancel()


@in_world(played)
async def test_the_predecessor_of_an_added_controller_is_frozen_and_kept_so(here: Played) -> None:
    await with_peering(here)
    manager = here.manager(name="sites", freeze_predecessor=True)
    async with anyio.create_task_group() as group:
        group.start_soon(here.server.run)
        await group.start(manager.run)
        await anyio.sleep(30)
        assert not await is_frozen(here)
        await sign_of_life(here)
        await manager.add(stamps())
        assert await is_frozen(here)
        await anyio.sleep(LIFETIME)
        assert await is_frozen(here)
        group.cancel_scope.cancel()


@in_world(played)
async def test_our_own_entries_are_not_taken_for_an_operator_on_kopf(here: Played) -> None:
    await with_peering(here)
    here.clock.advance(61)
    assert await refused(here) == ""
    assert await is_frozen(here)
    assert await refusal(here) == ""


@in_world(played)
async def test_a_role_of_namespaces_alone_freezes_what_signs_there(here: Played) -> None:
    await with_peering(here, NAMESPACED)
    for where in ("clusterkopfpeerings", "kopfpeerings.zalando.org"):
        here.recorded.add(Fault(When("list", f"*/{where}"), Refuse(403, "Forbidden", "no")))
    await here.runs(freezing(here, namespace="default"))
    assert await is_frozen(here, NAMESPACED)


def test_the_rights_to_freeze_name_the_peering_object() -> None:
    controllers = [stamps(peering="sites")]
    kopf = [one for one in freeze_permissions(controllers) if one.group == "kopf.dev"]
    assert kopf == [
        Permission("kopf.dev", "clusterkopfpeerings", ("list",)),
        Permission("kopf.dev", "clusterkopfpeerings", ("patch",), ("sites",)),
        Permission("kopf.dev", "clusterkopfpeerings/status", ("patch",), ("sites",)),
        Permission("kopf.dev", "kopfpeerings", ("list",)),
        Permission("kopf.dev", "kopfpeerings", ("patch",), ("sites",)),
        Permission("kopf.dev", "kopfpeerings/status", ("patch",), ("sites",)),
    ]
    of_a_namespace = {one.resource for one in freeze_permissions(controllers, namespaced=True)}
    assert of_a_namespace == {"kopfpeerings", "kopfpeerings/status"}
    assert freeze_permissions([stamps(peering="")]) == []


@pytest.mark.parametrize("namespaces", [(), ("default",)])
def test_manifests_have_the_flag_and_the_rights_to_freeze(namespaces: Sequence[str]) -> None:
    controllers = [stamps(peering="sites")]
    installed = Installation("a", "a", "a", "a:1", ["a:manager"], controllers, namespaces=namespaces)
    for freezes in (False, True):
        files = documents_of(evolve(installed, freezes_predecessor=freezes), [])
        (deployment,) = files["deployment.yaml"]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert ("--freeze-predecessor" in container["args"]) == freezes
        rules = [rule for role in files["rbac.yaml"] for rule in role.get("rules", ())]
        signs = {part for rule in rules for part in rule.get("resources", ()) if "patch" in rule["verbs"]}
        assert ("kopfpeerings" in signs) == freezes
        assert ("clusterkopfpeerings" in signs) == (freezes and not namespaces)


@in_world(played)
async def test_freezing_and_taking_over_anyway_exclude_each_other(here: Played) -> None:
    with pytest.raises(ConfigurationError, match="freeze_predecessor and take_over exclude each other"):
        freezing(here, take_over=True).configure()
