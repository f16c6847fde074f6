"""`reconcile shards`: the map of a ring, and orders to its replicas."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from informers.kubernetes import connect
from reconcile import Client, Object, ObjectMeta
from reconcile.client.buckets import BUCKET_LABEL
from reconcile.commands import main
from reconcile.commands.problems import Problem
from reconcile.commands.shard_map import NoRing, ShardMap, map_of
from reconcile.commands.shard_orders import order_of
from reconcile.commands.shard_text import lines, told
from reconcile.commands.shards_command import _Asked, _change
from reconcile.kinds import ConfigMap, Lease, LeaseSpec, Namespace
from reconcile.sharding.assignment import Assignment, Holding, MemberRecord, Orders
from reconcile.sharding.member_lease import RING_LABEL
from reconcile.sharding.ring import ASSIGNMENT, ORDERS
from reconcile.testing import FakeClient, Fault, FaultPlan, Refuse, When
from reconcile.testing.control_plane import ServerEndpoint, embedded
from tests.commands.helpers import complaint

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def lease(name: str, identity: str = "", renewed: datetime = NOW, **annotations: str) -> Lease:
    kept = {f"reconcile-runtime/{key}": text for key, text in annotations.items()}
    metadata = ObjectMeta(f"ring-{name}", "default", labels={RING_LABEL: "ring"}, annotations=kept)
    renew_time = renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return Lease(metadata=metadata, spec=LeaseSpec(identity, 15, renew_time=renew_time))


def leases(orders: Orders | None = None) -> list[Lease]:
    """Of a ring with four buckets: a holds 0 and gives 1 to b, 2 has no owner, and 3 is of a dead one."""
    holdings = (Holding("a", 3), Holding("a", 4, "b"), Holding(epoch=1), Holding("dead", 7), Holding("b", 5))
    record = MemberRecord(canary=0.05, late=True, version="1.2")
    return [
        lease("a", "a", NOW - timedelta(seconds=2), member=record.to_text()),
        lease("b", "b", NOW - timedelta(seconds=40), member=MemberRecord(draining=True).to_text()),
        lease(
            "assignment",
            assignment=Assignment(holdings, beginning=1).to_text(),
            orders=(orders or Orders()).to_text(),
        ),
    ]


def ring(orders: Orders | None = None) -> ShardMap:
    return map_of("ring", "default", leases(orders), NOW)


def test_the_map_has_each_member_with_what_it_holds() -> None:
    a, b = ring().members
    assert (a.held, a.closing, a.warming, a.leads) == ([0], [1], [], False)
    assert (b.held, b.closing, b.warming, b.leads) == ([], [], [1], True)
    assert (a.version, a.canary, a.late, a.overdue, a.renewed_ago) == ("1.2", 0.05, True, False, 2.0)
    assert (b.draining, b.overdue, b.renewed_ago) == (True, True, 40.0)


def test_the_map_has_buckets_in_hand_over_and_without_an_owner() -> None:
    found = ring()
    assert (found.buckets, found.leader, found.epochs) == (4, "b", (3, 7))
    assert found.moving == {("a", "b"): [1]}
    assert found.unowned == [2, 3]


def test_the_map_is_shown_as_text() -> None:
    assert list(lines(ring(Orders({0: "a", 4: "gone"}, ("b", "gone"))))) == [
        "ring default/ring: 4 buckets, 2 members, epochs 3 to 7",
        "MEMBER  VERSION  HELD  WARMING  CLOSING  RENEWED   STATE",
        "a       1.2      1     0        1        2 s ago   canary 0.05, late",
        "b                0     1        0        40 s ago  leads, drained, leaving, overdue",
        "moving: 1 from a to b",
        "unowned: 2-3",
        "pinned: 0 to a",
        "pinned: leader to gone, which is not there",
        "drained: gone, which is not there",
    ]


def test_a_ring_before_its_first_assignment_is_shown() -> None:
    first, *_ = leases()
    said = list(lines(map_of("ring", "default", [first], NOW)))
    assert said[1] == "nothing is assigned yet"
    *_, assigned = leases()
    said = list(lines(map_of("ring", "default", [assigned], NOW)))
    assert "no member is there: is the operator running?" in said
    with pytest.raises(NoRing, match="default/ring"):
        map_of("ring", "default", [], NOW)


@pytest.mark.parametrize(
    ("words", "orders"),
    [
        (("drain", "a"), Orders({2: "b"}, ("b", "a"))),
        (("drain", "b"), Orders({2: "b"}, ("b",))),
        (("undrain", "b"), Orders({2: "b"})),
        (("pin", "1", "a"), Orders({2: "b", 1: "a"}, ("b",))),
        (("pin", "leader", "a"), Orders({2: "b", 4: "a"}, ("b",))),
        (("unpin", "2"), Orders({}, ("b",))),
    ],
)
def test_an_order_changes_what_it_names(words: tuple[str, ...], orders: Orders) -> None:
    assert order_of(words).change(ring(Orders({2: "b"}, ("b",)))) == orders


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("drain", "bb"), "the ring has no member bb: the nearest is b"),
        (("pin", "4", "a"), "there is no bucket 4: use 0 to 3, or leader"),
        (("pin", "-1", "a"), "there is no bucket -1"),
        (("pin", "²", "a"), "there is no bucket ²"),
        (("pin", "1", "c"), "the ring has no member c: the nearest is "),
        (("unpin", "2"), "bucket 2 is not pinned: there are no pinned buckets"),
        (("undrain", "a"), "a is not drained: there are no drained members"),
        (("drain",), "'drain' is not an order: expected drain MEMBER"),
        (("stop", "a"), "'stop a' is not an order: expected drain MEMBER"),
    ],
)
def test_an_order_that_cannot_be_followed_is_refused_with_the_next_step(
    words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(Problem) as refused:
        order_of(words).change(ring())
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize("times", [3, None])
async def test_an_order_is_written_again_when_the_assignment_has_changed(
    times: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    conflict = Fault(When("update", "*/leases/*", times=times), Refuse(409, "Conflict"))
    client = FakeClient(*leases(), plan=FaultPlan((conflict,)))
    asked = _Asked("ring", "default", as_json=False)
    if times is None:
        with pytest.raises(Problem, match="changes all the time"):
            await _change(client, asked, order_of(("drain", "a")))
        return
    await _change(client, asked, order_of(("drain", "a")))
    assert capsys.readouterr().out == "a is to give away what it holds\n"
    written = await client.get(Lease, "ring-assignment", "default")
    assert Orders.from_text(written.metadata.annotations[ORDERS]) == Orders(drained=("a",))
    assert written.metadata.annotations[ASSIGNMENT] == leases()[2].metadata.annotations[ASSIGNMENT]


# --- against a server -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[ServerEndpoint]:
    child = ConfigMap(metadata=ObjectMeta("child", "default", labels={BUCKET_LABEL: "1"}))
    with embedded() as endpoint:
        anyio.run(make, endpoint, [Namespace(metadata=ObjectMeta("default")), *leases(), child])
        yield endpoint


async def make(endpoint: ServerEndpoint, objects: list[Object]) -> None:
    transport = await connect(endpoint.kubeconfig)
    client = Client(transport)
    for one in objects:
        if await client.find(type(one), one.name, one.namespace) is None:
            await client.create(one)
    await transport.aclose()


def shards(server: ServerEndpoint, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["shards", *arguments, "--kubeconfig", str(server.kubeconfig)]) == 0
    return capsys.readouterr().out


def shown(server: ServerEndpoint, capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(shards(server, capsys, "ring", "--json"))


def test_the_map_is_printed(server: ServerEndpoint, capsys: pytest.CaptureFixture[str]) -> None:
    assert shards(server, capsys, "default/ring").startswith("ring default/ring: 4 buckets, 2 members")
    found = shown(server, capsys)
    assert [member["identity"] for member in found["members"]] == ["a", "b"]
    assert found["moving"] == [{"from": "a", "to": "b", "buckets": [1]}]
    assert set(found) == set(told(ring()))


def test_orders_are_written_beside_the_assignment(
    server: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "b" in shards(server, capsys, "ring", "drain", "b")
    assert json.loads(shards(server, capsys, "ring", "pin", "leader", "a", "--json"))["pins"] == {
        "leader": "a"
    }
    found = shown(server, capsys)
    assert (found["drained"], found["pins"], found["buckets"]) == (["b"], {"leader": "a"}, 4)
    shards(server, capsys, "ring", "undrain", "b")
    shards(server, capsys, "ring", "unpin", "leader")
    found = shown(server, capsys)
    assert (found["drained"], found["pins"]) == ([], {})


@pytest.mark.parametrize("kind", ["ConfigMap", "configmaps", "cm", "configmaps."])
def test_an_object_is_found_in_its_buckets(
    kind: str, server: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    own, child = shards(server, capsys, "ring", "of", f"{kind}/default/child").splitlines()
    assert own.startswith(f"{kind}/default/child is in bucket ")
    assert child == f"{kind}/default/child is a child of bucket 1, of a in epoch 4, going to b"
    answer = json.loads(shards(server, capsys, "ring", "of", f"{kind}/default/child", "--json"))
    assert [place["by"] for place in answer["places"]] == ["uid", "label"]


def test_a_kind_of_a_group_and_one_without_namespaces_are_found(
    server: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "bucket" in shards(server, capsys, "ring", "of", "leases.coordination.k8s.io/default/ring-a")
    assert "bucket" in shards(server, capsys, "ring", "of", "Namespace/default")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rnig",), "error: there is no ring default/rnig: the nearest is default/ring\n"),
        (("a/b/c",), "error: 'a/b/c' does not name a ring"),
        (("shop:stamps",), "error: 'shop:stamps' does not name a ring"),
        (("shop/a b",), "error: 'shop/a b' does not name a ring"),
        (("ring", "pin", "9" * 5000, "a"), "error: there is no bucket 9999"),
        (("ring", "of"), "error: 'of' needs one object"),
        (("ring", "of", "ConfigMap"), "error: 'ConfigMap' names no object"),
        (("ring", "of", "Unknown/a/b"), "error: the server serves no Unknown"),
        (("ring", "of", "ConfigMap/a"), "error: 'ConfigMap/a' names no object of configmaps: write KIND/N"),
        (("ring", "of", "Namespace/a/b"), "error: 'Namespace/a/b' names no object of namespaces: write KIND"),
        (
            ("ring", "of", "ConfigMap/default/none"),
            "error: GET /api/v1/namespaces/default/conf",
        ),
    ],
)
def test_what_is_not_there_is_reported_in_one_line(
    arguments: tuple[str, ...], said: str, server: ServerEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint(capsys, "shards", *arguments, "--kubeconfig", str(server.kubeconfig)).startswith(said)


def test_a_kubeconfig_that_is_not_there_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    said = complaint(capsys, "shards", "ring", "--kubeconfig", "none")
    assert said == "error: the kubeconfig none does not exist: name another with --kubeconfig\n"
