"""The how-to of rollouts: its code rolls out as it stands there."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reconcile import ObjectMeta
from reconcile.kinds import Deployment
from reconcile.testing import FakeClient, run_once

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "roll-out-a-kind.md"
LINES_OF_AN_AUTHOR = 40


def code() -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))


@pytest.fixture
def names() -> dict[str, Any]:
    found: dict[str, Any] = {"__name__": "roll_out_a_kind"}
    exec(compile(code(), str(PAGE), "exec", dont_inherit=True), found)
    return found


async def fill(client: FakeClient) -> None:
    """As the controller of Deployments does, at once."""
    for one in await client.list(Deployment, "default"):
        size = one.spec.replicas
        status = {
            "replicas": size,
            "availableReplicas": size,
            "readyReplicas": size,
            "observedGeneration": one.metadata.generation,
        }
        await client.raw.merge(one, {"status": status}, guard={}, subresource="status")


def respecified(shop: Any, spec: Any) -> Any:
    return shop.replace(spec=spec)


def test_the_author_of_a_rollout_writes_few_lines() -> None:
    body = code().split("@frozen", 1)[1]
    assert len([line for line in body.splitlines() if line.strip()]) < LINES_OF_AN_AUTHOR


@pytest.mark.rule("aibrix-fleet-bounds")
async def test_the_code_on_the_page_rolls_out_within_its_bounds(names: dict[str, Any]) -> None:
    container = {"name": "web", "image": "shop:1"}
    spec = names["ShopSpec"]({"spec": {"containers": [container]}}, 3)
    client = FakeClient(names["Shop"](metadata=ObjectMeta("corner", "default"), spec=spec))
    for image in (f"shop:{number}" for number in range(1, 7)):
        shop = await client.get(names["Shop"], "corner", "default")
        changed = names["ShopSpec"]({"spec": {"containers": [{**container, "image": image}]}}, 3)
        await client.modify(names["Shop"], "corner", "default", partial(respecified, spec=changed))
        for _ in range(15):
            assert (await run_once(names["shops"], shop, client)).error is None
            sets = await client.list(Deployment, "default")
            assert sum(one.spec.replicas or 0 for one in sets) <= 4
            await fill(client)
    sizes = {one.spec.template.spec.containers[0].image: one.spec.replicas for one in sets}
    assert sizes == {"shop:3": 0, "shop:4": 0, "shop:5": 0, "shop:6": 3}
    assert (await client.get(names["Shop"], "corner", "default")).status.available == 3
