"""ClusterSecrets of an operator on kopf go on under the port: no copy is made anew, and nothing is left."""

from pathlib import Path

import pytest
import yaml
from clustersecrets import ClusterSecret, Synced, cluster_secrets

from reconcile import Client, ObjectMeta
from reconcile.kinds import Namespace, Secret
from reconcile.testing import ListeningServer, ManagerRunner, eventually
from tests.helpers.kopf_process import kopf

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "cluster-secret"
DEFINITION = EXAMPLE / "manifests" / "definition.yaml"
PLACES = ("port-a", "port-b")
PATIENCE = 30.0

pytestmark = pytest.mark.timeout(120)


async def copies(client: Client) -> dict[str, Secret]:
    return {one.namespace: one for one in await client.list(Secret) if one.name == "port"}


async def test_cluster_secrets_created_under_kopf_are_taken_over_by_the_port(
    api_server: ListeningServer, manager: ManagerRunner, tmp_path: Path
) -> None:
    async with api_server.connect() as client:

        async def of_kopf() -> bool:
            return (await client.get(ClusterSecret, "port")).status.create_fn == Synced(PLACES)

        async def of_ours() -> bool:
            found = await client.get(ClusterSecret, "port")
            ready = any(one.type == "Ready" and one.status == "True" for one in found.status.conditions)
            return ready and not found.metadata.annotations

        async def gone() -> bool:
            return await client.find(ClusterSecret, "port") is None

        await client.apply(yaml.safe_load(DEFINITION.read_text()))
        for name in PLACES:
            await client.create(Namespace(metadata=ObjectMeta(name)))
        data = {"stays": "MQ==", "goes": "Mg=="}
        shared = ClusterSecret(metadata=ObjectMeta("port"), match_namespace=("port-",), data=data)
        with kopf(api_server, tmp_path / "log", "clustersecrets_kopf"):
            await client.create(shared)
            await eventually(of_kopf, within=PATIENCE)
        before = {where: copy.uid for where, copy in (await copies(client)).items()}
        assert tuple(sorted(before)) == PLACES
        await client.modify(ClusterSecret, "port", "", lambda found: found.replace(data={"stays": "MQ=="}))
        async with manager(cluster_secrets()):
            await eventually(of_ours, within=PATIENCE)
            after = await copies(client)
            assert {where: copy.uid for where, copy in after.items()} == before
            assert [dict(copy.data) for copy in after.values()] == [{"stays": "MQ=="}] * 2
            metadata = (await client.get(ClusterSecret, "port")).metadata
            assert metadata.finalizers == (cluster_secrets().finalizer,)
            await client.delete(await client.get(ClusterSecret, "port"))
            await eventually(gone, within=PATIENCE)
        assert await copies(client) == {}
