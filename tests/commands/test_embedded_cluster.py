"""The cluster of `reconcile dev` and `reconcile run --embedded`: which webhooks it calls."""

from pathlib import Path

import pytest
from attrs import evolve

from reconcile import Controller, ObjectMeta
from reconcile.commands.embedded_cluster import EmbeddedCluster, embedded_cluster
from reconcile.embedded import DataFolder
from reconcile.errors import Invalid
from reconcile.kinds import ConfigMap
from reconcile.models import Rule
from reconcile.webhooks import Admission
from tests.webhooks.boxes import BOXES, Box, BoxSpec
from tests.webhooks.shops import Shop, ShopAlpha, ShopSpecAlpha


async def keep(ctx: object) -> None: ...


maps = Admission(
    ConfigMap, rules=[Rule("!('large' in object.data)", message="is large")], operator="shop.example.com"
)
boxes = Controller(Box, keep, admission=[BOXES, maps])
shops = Controller(Shop, keep)


def box(name: str, size: int) -> Box:
    return Box(metadata=ObjectMeta(name, "default"), spec=BoxSpec(size=size))


async def test_webhooks_of_controllers_are_called(tmp_path: Path) -> None:
    async with embedded_cluster(tmp_path / "kubeconfig", nodes=0) as cluster:
        await cluster.serve_kinds([boxes])
        assert (await cluster.client.create(box("small", 1))).spec.color == "red"
        with pytest.raises(Invalid, match="must be at most 9, got 10"):
            await cluster.client.create(box("large", 10))
        await cluster.client.create(ConfigMap(metadata=ObjectMeta("other", "default")))


async def test_versions_of_a_kind_are_converted(tmp_path: Path) -> None:
    async with embedded_cluster(tmp_path / "kubeconfig", nodes=0) as cluster:
        await cluster.serve_kinds([shops])
        alpha = ShopAlpha(metadata=ObjectMeta("a", "default"), spec=ShopSpecAlpha(count=4))
        await cluster.client.create(alpha)
        assert (await cluster.client.get(Shop, "a", "default")).spec.replicas == 4


async def _refuses(cluster: EmbeddedCluster) -> bool:
    """Whether both a webhook and a policy refuse."""
    answers = set()
    for obj in (box("large", 10), ConfigMap(metadata=ObjectMeta("large", "default"), data={"large": ""})):
        try:
            await cluster.client.delete(await cluster.client.create(obj))
            answers.add(False)
        except Invalid:
            answers.add(True)
    (answer,) = answers
    return answer


async def test_a_reload_replaces_the_webhooks(tmp_path: Path) -> None:
    async with embedded_cluster(tmp_path / "kubeconfig", nodes=0) as cluster:
        await cluster.serve_kinds([boxes])
        assert await _refuses(cluster)
        await cluster.serve_kinds([evolve(boxes, admission=())])
        assert not await _refuses(cluster)
        await cluster.serve_kinds([boxes])
        assert await _refuses(cluster)
        await cluster.serve_kinds([Controller(Box, keep, name="renamed")])
        assert not await _refuses(cluster)


async def test_webhooks_that_an_earlier_run_left_are_replaced(tmp_path: Path) -> None:
    for controller, refused in ((boxes, True), (boxes, True), (evolve(boxes, admission=()), False)):
        with DataFolder(tmp_path / "data") as data:
            async with embedded_cluster(tmp_path / "kubeconfig", nodes=0, data=data) as cluster:
                await cluster.serve_kinds([controller])
                assert await _refuses(cluster) == refused
