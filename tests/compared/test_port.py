"""Notebooks of an operator on kopf go on under its port: nothing is made anew, and nothing of kopf stays."""

from pathlib import Path

import pytest
from notebooks import Notebook, NotebookSpec, notebooks

from reconcile import ObjectMeta
from reconcile.kinds import Deployment, PersistentVolumeClaim, Service
from reconcile.models import definition_of
from reconcile.testing import ListeningServer, ManagerRunner, eventually
from tests.helpers.kopf_process import kopf

CHILDREN = (Deployment, PersistentVolumeClaim, Service)
PATIENCE = 30.0

pytestmark = pytest.mark.timeout(120)


async def test_notebooks_created_under_kopf_are_taken_over_by_the_port(
    api_server: ListeningServer, manager: ManagerRunner, tmp_path: Path
) -> None:
    where = api_server.namespace
    async with api_server.connect() as client:

        async def of_kopf() -> bool:
            # It is written last, in the patch that removes the progress of the handlers.
            metadata = (await client.get(Notebook, "ada", where)).metadata
            return "kopf.zalando.org/last-handled-configuration" in metadata.annotations

        async def of_ours() -> bool:
            metadata = (await client.get(Notebook, "ada", where)).metadata
            return metadata.finalizers == (notebooks.finalizer,) and not metadata.annotations

        async def uids() -> list[str]:
            return [(await client.get(kind, "ada", where)).metadata.uid for kind in CHILDREN]

        async def gone() -> bool:
            return await client.find(Notebook, "ada", where) is None

        await client.apply(definition_of(Notebook))
        with kopf(api_server, tmp_path / "log", "notebooks_kopf", "-n", where):
            await client.create(Notebook(metadata=ObjectMeta("ada", where), spec=NotebookSpec("jupyter:1")))
            await eventually(of_kopf, within=PATIENCE)
        before = await uids()
        async with manager(notebooks, namespace=where):
            await eventually(of_ours, within=PATIENCE)
            assert await uids() == before
            await client.delete(await client.get(Deployment, "ada", where))
            await eventually(lambda: client.find(Deployment, "ada", where), within=PATIENCE)
            await client.delete(await client.get(Notebook, "ada", where))
            await eventually(gone, within=PATIENCE)
