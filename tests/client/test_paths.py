"""Names that authors of objects choose become parts of paths, which are asked with the manager's rights."""

import pytest

from informers import Key, NotFound
from informers.discovery import UnknownKind
from reconcile import ObjectMeta, kind_of
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
async def test_an_api_version_that_would_lead_elsewhere_is_unknown_and_not_sent(
    api_version: str,
) -> None:
    client = FakeClient()
    sent = len(client.transport.requests)
    with pytest.raises(UnknownKind):
        await client.raw.unstructured({"apiVersion": api_version, "kind": "Secret"})
    assert len(client.transport.requests) == sent
