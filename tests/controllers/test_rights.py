"""Each ready-made controller at work under the rights that its declaration makes, and under no others."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias

import anyio
import pytest
from attrs import evolve

from controllers import autoscaling, fleets, registrysecrets, workergroups
from controllers.nodegroups import NodeGroupSettings
from controllers.nodegroups import make_controller as make_node_groups
from reconcile import Client, Controller, Manager, ObjectMeta
from reconcile.controller.permissions import permissions_of, predecessor_permissions
from reconcile.embedded import InProcessTransport, service_account
from reconcile.kinds import Namespace, Secret
from reconcile.testing import FakeClient, simulate
from tests.controllers import autoscaling as scaled
from tests.controllers import fleets as ray
from tests.controllers import nodegroups as machines
from tests.controllers import pipelines
from tests.controllers.world import NAMESPACE

pytestmark = pytest.mark.rule("declared-bundled")

ACCOUNT = service_account("default", "operator")
GROUP = "rbac.authorization.k8s.io"
Story: TypeAlias = Callable[[Client], Awaitable[None]]


def role_of(controllers: Iterable[Controller[Any]]) -> list[Mapping[str, Any]]:
    controllers = list(controllers)
    rights = [*permissions_of(controllers), *predecessor_permissions(controllers)]
    head = {"apiVersion": f"{GROUP}/v1", "metadata": {"name": "operator"}}
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": "default"}
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "operator"}
    return [
        {**head, "kind": "ClusterRole", "rules": [right.rule() for right in rights]},
        {**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]},
    ]


def refused(
    controllers: Iterable[Controller[Any]],
    definitions: Iterable[Mapping[str, Any]],
    story: Story,
    beside: Iterable[Controller[Any]] = (),
    rights_of: Iterable[Controller[Any]] | None = None,
) -> tuple[set[str], set[str]]:
    """What the server refused the controllers while the story was played, and what they wrote.

    Those `beside` are played too, by the administrator. The rights are theirs, or those of `rights_of`.
    """
    controllers = list(controllers)
    role = role_of(controllers if rights_of is None else rights_of)
    client = FakeClient(*definitions, *role, Namespace(metadata=ObjectMeta(NAMESPACE)), user=ACCOUNT)

    async def play() -> None:
        transport = InProcessTransport(client.server, settle=True)
        options: dict[str, Any] = {"clock": client.clock, "environ": {}}
        async with (
            Manager(*beside, transport=transport, **options),
            Manager(*controllers, transport=client.transport, **options),
        ):
            await story(Client(transport, clock=client.clock))

    simulate(play)
    requests = client.transport.requests
    no = {str(request) for request in requests if request.server_status == 403}
    return no, {f"{one.verb} {one.path.rpartition('/namespaces/')[2]}" for one in requests if one.mutating}


def wrote(written: set[str], *verbs_and_kinds: str) -> None:
    for verb, _, kind in (one.partition(" ") for one in verbs_and_kinds):
        assert any(one.startswith(f"{verb} ") and f"{kind}" in one for one in written), (verb, kind, written)


RAY_CLUSTER = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "ray", "namespace": NAMESPACE},
    "spec": {
        "authOptions": {"mode": "token"},
        "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
        "headGroupSpec": {
            "rayStartParams": {},
            "template": {"spec": {"containers": [{"name": "head", "image": "ray"}]}},
        },
        "workerGroupSpecs": [
            {
                "groupName": "small",
                "replicas": 2,
                "minReplicas": 0,
                "maxReplicas": 5,
                "rayStartParams": {},
                "template": {"spec": {"containers": [{"name": "worker", "image": "ray"}]}},
            }
        ],
    },
}


def test_worker_groups_work_under_their_rights() -> None:
    async def story(admin: Client) -> None:
        cluster = await admin.create(RAY_CLUSTER)
        await anyio.sleep(10)
        groups = [{**RAY_CLUSTER["spec"]["workerGroupSpecs"][0], "replicas": 1}]  # type: ignore[index]
        await admin.raw.merge(cluster, {"spec": {"workerGroupSpecs": groups}}, guard={})
        await anyio.sleep(10)
        await admin.delete(cluster)
        await anyio.sleep(400)

    no, written = refused([workergroups.controller], [workergroups.definition()], story)
    assert no == set()
    wrote(
        written, "create /pods", "create /secrets", "create /jobs", "patch /rayclusters/ray", "delete /pods/"
    )


def test_fleets_work_under_their_rights() -> None:
    async def story(admin: Client) -> None:
        made = await admin.create(ray.fleet(1))
        await anyio.sleep(10)
        changed = ray.fleet(2, image="ray:2").spec
        await admin.modify(type(made), "fleet", "default", lambda old: old.replace(spec=changed))
        await anyio.sleep(10)
        back = {"metadata": {"annotations": {"deprecated.deployment.rollback.to": "1"}}}
        await admin.raw.merge(await admin.get(type(made), "fleet", "default"), back, guard={})
        await anyio.sleep(10)
        none = {"spec": {"replicas": 0}}
        await admin.raw.merge(await admin.get(type(made), "fleet", "default"), none, guard={})
        await anyio.sleep(10)

    definitions = [workergroups.definition(), fleets.definition(), fleets.set_definition()]
    no, written = refused(fleets.make_controllers(), definitions, story)
    assert no == set()
    wrote(written, "create /rayclusters", "create /rayclusterreplicasets", "patch /rayclusterfleets/fleet")


def test_registry_secrets_work_under_their_rights() -> None:
    async def story(admin: Client) -> None:
        await admin.create(pipelines.source())
        made = await admin.create(pipelines.pipeline(removal="namespaces"))
        await anyio.sleep(10)
        source = pipelines.source("another")
        await admin.raw.merge(source, {"data": dict(source.data)}, guard={})
        await anyio.sleep(10)
        await admin.delete(made)
        await anyio.sleep(10)

    ours = [pipelines.controller], [registrysecrets.definition()], story
    no, written = refused(*ours)
    assert no == set()
    less = evolve(pipelines.controller, writes=[Secret])
    assert all("/api/v1/namespaces" in one for one in refused(*ours, rights_of=[less])[0])
    assert refused(*ours, rights_of=[less])[0]
    wrote(written, "create /secrets", "patch /secrets/", "delete /secrets/", "create /api/v1/namespaces")
    wrote(written, "delete ")


def test_pod_autoscalers_work_under_their_rights() -> None:
    async def story(admin: Client) -> None:
        await admin.create(scaled.deployment("model", 1))
        await admin.apply(scaled.autoscaler("model", minReplicas=2))
        await admin.create(scaled.deployment("other", 1))
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}
        hpa = scaled.autoscaler("other", {}, scalingStrategy="HPA", scaleTargetRef=target)
        await admin.apply(hpa)
        await anyio.sleep(60)

    given = autoscaling.make_controller(fetch=scaled.Net().fetch)
    no, written = refused([given], [autoscaling.definition()], story)
    assert no == set()
    wrote(written, "patch /deployments/model/scale", "patch /horizontalpodautoscalers")


def test_node_groups_work_under_their_rights() -> None:
    async def story(admin: Client) -> None:
        await admin.create(machines.group("best", 0, ("0", "3"), **machines.CAPACITIES))
        await admin.create(machines.autoscaler())
        for name in "ab":
            await machines.wait_in_vain(admin, machines.pod(name))
        await anyio.sleep(60)
        assert await machines.size_of(admin, "best") > 0

    given = make_node_groups(settings=NodeGroupSettings(machines.API))
    no, written = refused([given], machines.definitions(), story, [machines.MACHINES.controller])
    assert no == set()
    wrote(written, "patch /machinedeployments/best/scale")
