"""Whether an API server takes a sample."""

from collections.abc import Mapping
from typing import Any

import anyio

from informers import ApiError


def fault_of(definition: Mapping[str, Any] | None, sample: Mapping[str, Any]) -> str:
    """Why an API server refuses the sample; empty if it takes it or the extra `embedded` is missing.

    A kind of Kubernetes has no definition.
    """
    return anyio.run(_fault_of, definition, sample)


async def _fault_of(definition: Mapping[str, Any] | None, sample: Mapping[str, Any]) -> str:
    try:
        from reconcile.client.client import Client
        from reconcile.embedded import ApiServer, InProcessTransport
    except ImportError:
        return ""
    client = Client(InProcessTransport(ApiServer(), settle=True))
    try:
        if definition is not None:
            await client.create(await client.raw.unstructured(definition))
        await client.create(await client.raw.unstructured(_somewhere(sample)))
    except ApiError as error:
        return str(error)
    return ""


def _somewhere(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """The sample in a namespace that each server has."""
    metadata = sample["metadata"]
    moved = {"namespace": "default"} if "namespace" in metadata else {}
    return {**sample, "metadata": {**metadata, **moved}}
