"""Names that authors of objects choose become parts of paths, which are asked with the manager's rights."""

from collections.abc import Awaitable, Callable, Mapping

import pytest

from informers import Key, NotFound
from informers.discovery import UnknownKind
from reconcile import Client, ObjectMeta, kind_of
from reconcile.kinds import ConfigMap, Namespace, Secret
from reconcile.testing import FakeClient

NAMES = ["../../finance/secrets/login", "..", ".", "a/b", "a%2Fb", "a/status"]


@pytest.mark.rule("tenant-08")
@pytest.mark.parametrize("name", NAMES)
async def test_a_name_that_would_lead_to_another_path_is_not_found_and_not_sent(name: str) -> None:
    client = FakeClient(Secret(metadata=ObjectMeta("login", "finance")))
    sent = len(client.transport.requests)
    assert await client.find(Secret, name, "shop", live=True) is None
    assert await client.find(Secret, "login", name, live=True) is None
    assert await client.find(Namespace, name) is None
    with pytest.raises(NotFound):
        await client.get(ConfigMap, name, "shop")
    with pytest.raises(NotFound, match="not in a name"):
        kind_of(Secret).resource.path(*Key("shop", name))
    assert len(client.transport.requests) == sent


@pytest.mark.rule("tenant-08")
@pytest.mark.parametrize("api_version", ["../api/v1", "apps/v1/../..", "v1?watch=1", "", "a b/v1", "v%31"])
async def test_an_api_version_that_would_lead_to_another_path_is_unknown_and_not_sent(
    api_version: str,
) -> None:
    client = FakeClient()
    sent = len(client.transport.requests)
    with pytest.raises(UnknownKind):
        await client.raw.unstructured({"apiVersion": api_version, "kind": "Secret"})
    assert len(client.transport.requests) == sent


NAMELESS = ConfigMap(metadata=ObjectMeta("", "default", uid="u", resource_version="1"))
WRITES: Mapping[str, Callable[[Client], Awaitable[object]]] = {
    "delete": lambda client: client.delete(NAMELESS),
    "merge": lambda client: client.raw.merge(NAMELESS, {"data": {}}, guard={}),
    "update": lambda client: client.raw.update(NAMELESS, whole=True),
    "evict": lambda client: client.raw.create_subresource(NAMELESS, "eviction", {}),
    "scale": lambda client: client.raw.apply_scale(NAMELESS, 1),
    "apply": lambda client: client.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}),
}


@pytest.mark.rule("tenant-08")
@pytest.mark.parametrize("write", WRITES)
async def test_a_write_without_a_name_never_reaches_the_whole_collection(write: str) -> None:
    client = FakeClient(ConfigMap(metadata=ObjectMeta("a", "default"))).with_options(namespace="default")
    with pytest.raises(ValueError, match="has no name"):
        await WRITES[write](client)
    assert not client.transport.writes
    assert await client.find(ConfigMap, "a") is not None


@pytest.mark.rule("tenant-08")
async def test_no_object_is_found_under_an_empty_name() -> None:
    client = FakeClient(ConfigMap(metadata=ObjectMeta("a", "default")))
    assert await client.find(ConfigMap, "", "default") is None
    assert not client.transport.requests
