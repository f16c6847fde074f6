"""The Job that uninstalls an operator: its objects, and that its rights name what they can."""

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve
from sites import sites

from reconcile.client.client import Client
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.shipping.installation import Installation
from reconcile.shipping.uninstall_job import uninstall_documents
from reconcile.testing.virtual_time import simulate

SHOP = Installation("shop", "lease", "shop-system", "shop:1", ("sites",), (sites,))


def rules(documents: Sequence[dict[str, Any]]) -> set[tuple[str, str]]:
    return {
        (resource, verb)
        for document in documents
        for rule in document.get("rules", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_an_api_server_accepts_all_objects() -> None:
    async def story() -> int:
        client = Client(InProcessTransport(ApiServer()))
        for namespace in ("shop-system", "a", "b"):
            await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        documents = uninstall_documents(evolve(SHOP, namespaces=("a",), ring=("b", "ring")))
        for document in documents:
            await client.create(document)
        return len(documents)

    assert simulate(story) == 10


def test_no_object_is_labelled_as_one_of_the_operator() -> None:
    for document in uninstall_documents(SHOP):
        assert document["metadata"]["name"] == "shop-uninstall"
        assert document["metadata"]["labels"] == {"app.kubernetes.io/name": "shop-uninstall"}


@pytest.mark.parametrize("ring", [None, ("shop-system", "ring")])
def test_all_is_deleted_by_name_but_objects_of_its_kinds_and_leases_of_a_ring(
    ring: tuple[str, str] | None,
) -> None:
    documents = uninstall_documents(evolve(SHOP, ring=ring))
    unnamed = {
        resource
        for document in documents
        for rule in document.get("rules", ())
        for resource in rule["resources"]
        if "resourceNames" not in rule and {*rule["verbs"]} - {"list"}
    }
    assert unnamed == {"sites", *({"leases"} if ring else ())}


def test_data_that_is_kept_cannot_be_deleted() -> None:
    kept, deleted = rules(uninstall_documents(SHOP, keep_data=True)), rules(uninstall_documents(SHOP))
    assert deleted - kept == {("sites", "delete"), ("customresourcedefinitions", "delete")}
    assert kept < deleted
    job = uninstall_documents(SHOP, keep_data=True)[-1]
    assert job["spec"]["template"]["spec"]["containers"][0]["args"][-1] == "--keep-data"
