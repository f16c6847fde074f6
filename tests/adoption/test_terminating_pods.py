"""A pod that is being deleted works until it has gone, whatever the status of its Deployment counts."""

from typing import Any

import pytest

from reconcile import Manager
from reconcile.adoption.audit import Audit, SeenDeployment
from reconcile.adoption.cluster_reading import ClusterReading
from reconcile.adoption.own_operator import OwnOperatorActive, check_stopped
from reconcile.adoption.switch_leftovers import leftovers
from reconcile.adoption.switch_plan import Finished, Seen, Terms, Wait, next_step
from reconcile.client.sender import Sender
from reconcile.kinds import Pod
from reconcile.testing import FakeClient
from tests.clients.gadgets import deployment
from tests.helpers.pods import pod

STOPPED: dict[str, Any] = {
    **deployment("operator", "operator:1"),
    "status": {"replicas": 0, "terminatingReplicas": 0},
}
STOPPED["spec"]["replicas"] = 0


async def server(*pods: Pod) -> FakeClient:
    """With those pods, of which the ones that have a finalizer are being deleted."""
    client = FakeClient(STOPPED, *pods)
    for one in pods:
        if one.metadata.finalizers:
            await client.delete(await client.get(Pod, one.name, "default"))
            assert (await client.get(Pod, one.name, "default")).terminating
    return client


def held(name: str, phase: str = "Running", app: str = "operator") -> Pod:
    """A pod whose process has not ended when it is deleted."""
    return pod(name, phase, labels={"a": app}, finalizers=("example.com/wait",))


def reading(client: FakeClient) -> ClusterReading:
    return ClusterReading(Sender(client.transport, client.clock), client.clock)


async def test_a_deployment_has_the_pods_that_are_being_deleted_until_they_have_ended() -> None:
    pods = [held("a"), held("ended", "Succeeded"), held("failed", "Failed")]
    client = await server(
        *pods, held("other", app="another"), pod("new", "Pending", labels={"a": "operator"})
    )
    (found,) = await reading(client).deployments(["operator"])
    assert found == SeenDeployment("default/operator", 0, 2)
    assert Audit(deployments=[found]).alive


async def test_a_switch_waits_for_a_pod_that_is_being_deleted_and_verify_names_it() -> None:
    client = await server(held("old"))
    audit = await reading(client).audit([], deployments=["default/operator"])
    seen = Seen(audit, client.clock.now())
    step = next_step(seen, Terms())
    assert isinstance(step, Wait)
    assert step.what == "the pods of default/operator have ended: 1 left"
    assert any(one.what == "has 0 replicas and 1 pod" for one in leftovers(seen).findings)
    gone = await reading(await server()).audit([], deployments=["default/operator"])
    assert isinstance(next_step(Seen(gone, client.clock.now()), Terms()), Finished)


async def test_objects_are_not_handed_back_while_a_pod_of_the_new_operator_is_being_deleted() -> None:
    client, options = await server(held("old")), Manager(name="operator", environ={}).options
    sender = Sender(client.transport, client.clock)
    with pytest.raises(OwnOperatorActive, match="the Deployment default/operator has 1 pod not ended"):
        await check_stopped(sender, client.clock, "operator", "default", options)
    await client.modify(Pod, "old", "default", lambda one: one.with_metadata(finalizers=()))
    await check_stopped(sender, client.clock, "operator", "default", options)
