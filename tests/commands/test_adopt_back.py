"""`reconcile adopt kopf back` on an embedded server, without kopf."""

import datetime
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from informers import Key, SystemClock
from informers.kubernetes import connect
from reconcile import Client, ObjectMeta
from reconcile.commands import main
from reconcile.kinds import Lease, LeaseSpec, Namespace
from reconcile.models import definition_of
from reconcile.predecessors import PEERINGS, entry_of
from reconcile.sharding.member_lease import RING_LABEL
from reconcile.testing.control_plane import ServerEndpoint
from tests.adoption.returned_sites import Site, sites
from tests.commands.helpers import complaint
from tests.helpers.definitions import definition
from tests.helpers.pods import pod

BACK = ("adopt", "kopf", "back")
MODULE = "tests.adoption.returned_sites"
KOPF = "kopf.zalando.org/KopfFinalizerMarker"
NAMES = tuple(f"s{number}" for number in range(7))


def on(server: ServerEndpoint, does: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        transport = await connect(server.kubeconfig)
        try:
            await does(Client(transport))
        finally:
            await transport.aclose()

    anyio.run(run)


async def fill(client: Client) -> None:
    """Objects as the new operator leaves them, and one that no operator has seen."""
    await client.apply(definition_of(Site))
    for name in NAMES:
        await client.create(Site(metadata=ObjectMeta(name, "default", finalizers=(sites.finalizer,))))
    await client.create(Site(metadata=ObjectMeta("unseen", "default")))


def back(server: ServerEndpoint, *arguments: str) -> int:
    return main([*BACK, MODULE, *arguments, "--kubeconfig", str(server.kubeconfig)])


def test_the_freeze_of_a_manager_is_lifted_once_all_objects_are_handed_back(
    cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    on(cluster, fill)
    left: list[tuple[str, ...]] = []

    async def freeze(client: Client) -> None:
        peerings = definition("ClusterKopfPeering", group="kopf.dev", subresources={})
        peerings["spec"]["scope"] = "Cluster"
        await client.create(peerings)
        head = {"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": "default"}}
        made = await client.create(head)
        entries = {"reconcile/sites": entry_of(100, 600, SystemClock().now()), "me@host": {"lifetime": 0}}
        await client.raw.merge(made, {"status": entries}, guard={})

    async def read(client: Client) -> None:
        found = await client.raw.snapshot(PEERINGS[0], Key("", "default"), live=True)
        assert found is not None
        left.append(tuple(sorted(found.to_dict()["status"])))

    on(cluster, freeze)
    assert back(cluster, "--dry-run") == 0
    on(cluster, read)
    assert back(cluster, "--yes") == 0
    assert "lifted the freeze in ClusterKopfPeering default" in capsys.readouterr().out
    on(cluster, read)
    assert left == [("me@host", "reconcile/sites"), ("me@host",)]


def test_a_dry_run_says_what_becomes_of_each_object_and_changes_nothing(
    cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    on(cluster, fill)
    assert back(cluster, "--dry-run") == 0
    shown = capsys.readouterr().out
    assert shown.splitlines() == [
        (
            "sites.back.example.com: 7 handed back: kopf resumes it (default/s0, default/s1, default/s2, "
            "default/s3, default/s4 and 2 more)"
        ),
        (
            "sites.back.example.com: 1 without a trace of either operator: kopf calls its create handlers "
            "(default/unseen)"
        ),
    ]
    assert back(cluster, "--dry-run") == 0
    assert capsys.readouterr().out == shown
    assert back(cluster, "--dry-run", "--untraced") == 0
    assert "8 handed back" in capsys.readouterr().out


def test_an_object_that_is_being_deleted_is_left_to_the_new_operator_with_status_1(
    cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    async def deleting(client: Client) -> None:
        await fill(client)
        await client.delete(await client.get(Site, "s0", "default"))

    async def check(client: Client) -> None:
        found = {site.name: site.metadata for site in await client.list(Site)}
        assert found["s0"].finalizers == (sites.finalizer,)
        assert all(found[name].finalizers == (KOPF,) for name in NAMES[1:])
        assert found["unseen"].finalizers == ()
        copy = found["s1"].annotations["kopf.zalando.org/last-handled-configuration"]
        assert copy == '{"size":1}\n'

    on(cluster, deleting)
    assert back(cluster, "--yes") == 1
    said = capsys.readouterr()
    assert "1 being deleted and held by the new operator" in said.err
    assert "start the new operator until the objects that are being deleted have gone" in said.err
    on(cluster, check)


def deployment(name: str, namespace: str) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("name", "namespace", "said"),
    [
        ("sites", "sites-system", "error: the Deployment sites-system/sites asks for 1 replica, so"),
        (
            "old-sites",
            "default",
            "error: Deployment default/old-sites has 1 replicas, so sites on kopf is at",
        ),
    ],
)
def test_nothing_is_written_while_one_of_the_operators_is_at_work(
    cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str], name: str, namespace: str, said: str
) -> None:
    async def deployed(client: Client) -> None:
        await fill(client)
        await client.create(Namespace(metadata=ObjectMeta("sites-system")))
        await client.create(deployment(name, namespace))

    on(cluster, deployed)
    arguments = (MODULE, "--yes", "--kubeconfig", str(cluster.kubeconfig))
    assert complaint(capsys, *BACK, *arguments).startswith(said)


@pytest.mark.parametrize(
    ("name", "namespace", "said"),
    [
        ("sites", "sites-system", "error: the Deployment sites-system/sites has 1 pod not ended, so the new"),
        ("old-sites", "default", "error: the Deployment default/old-sites has 1 pod not ended, so the oper"),
    ],
)
def test_nothing_is_written_while_a_pod_of_one_of_them_is_being_deleted(
    cluster: ServerEndpoint, capsys: pytest.CaptureFixture[str], name: str, namespace: str, said: str
) -> None:
    async def stopping(client: Client) -> None:
        await fill(client)
        await client.create(Namespace(metadata=ObjectMeta("sites-system")))
        stopped = deployment(name, namespace)
        await client.create({**stopped, "spec": {**stopped["spec"], "replicas": 0}})
        last = pod(
            "last", "Running", namespace=namespace, labels={"a": "b"}, finalizers=("example.com/wait",)
        )
        await client.delete(await client.create(last))

    on(cluster, stopping)
    arguments = (MODULE, "--yes", "--kubeconfig", str(cluster.kubeconfig))
    assert complaint(capsys, *BACK, *arguments).startswith(said)


def lease(name: str, holder: str, renewed: datetime.datetime) -> Lease:
    times = renewed.isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=15, renew_time=times)
    return Lease(metadata=ObjectMeta(name, "sites-system", labels={RING_LABEL: "shared"}), spec=spec)


@pytest.mark.parametrize(
    "option", ["", 'leader_election="sites-system/mine"', 'sharding="sites-system/shared"']
)
def test_nothing_is_written_while_a_process_holds_a_lease_of_the_new_operator(
    cluster: ServerEndpoint, folder: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    (folder / "leased.py").write_text(
        "from reconcile import Manager\nfrom tests.adoption.returned_sites import sites\n"
        f'manager = Manager(sites, name="sites", {option})\n'
    )
    name = {"": "sites", "lead": "mine"}.get(option[:4], "shared-1")
    now = SystemClock().now()

    def held(renewed: datetime.datetime) -> Callable[[Client], Awaitable[None]]:
        async def write(client: Client) -> None:
            await client.create(lease(name, "laptop", renewed))

        return write

    async def leave(client: Client) -> None:
        await client.delete(await client.get(Lease, name, "sites-system"))
        await held(now - datetime.timedelta(minutes=5))(client)

    async def prepare(client: Client) -> None:
        await fill(client)
        await client.create(Namespace(metadata=ObjectMeta("sites-system")))
        await held(now)(client)

    on(cluster, prepare)
    arguments = ("leased", "--yes", "--kubeconfig", str(cluster.kubeconfig))
    said = complaint(capsys, *BACK, *arguments)
    assert said.startswith(
        f"error: laptop holds the Lease sites-system/{name}, so the new operator would take"
    )
    on(cluster, leave)
    assert main([*BACK, *arguments]) == 0
    assert "7 handed back" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((MODULE,), "error: nothing was handed back: add --yes, or see with --dry-run what it would do"),
        ((MODULE, "--yes", "--field", "spec.size"), "error: --field: 'spec.size' is not a field below"),
        (("ours", "--yes"), "error: no controller of ours names an operator on kopf: add predecessor="),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    arguments: tuple[str, ...], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "ours.py").write_text("from sites import sites as controller\n")
    assert complaint(capsys, *BACK, *arguments).startswith(said)
