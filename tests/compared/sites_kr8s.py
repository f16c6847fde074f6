"""The operator of docs/examples/site, without its Secrets and its condition, on kr8s."""

import asyncio
import json
from typing import Any

import dns
import kr8s.asyncio
from kr8s.asyncio.objects import APIObject, Deployment, new_class

Site = new_class("Site", "example.com/v1", namespaced=True)
FINALIZER = "example.com/site"


def deployment_for(site: APIObject) -> dict[str, Any]:
    labels = {"site": site.name}
    pod = {"containers": [{"name": "web", "image": site.spec.image}]}
    owner = {
        "apiVersion": "example.com/v1",
        "kind": "Site",
        "name": site.name,
        "uid": site.metadata.uid,
        "controller": True,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": site.name, "labels": labels, "ownerReferences": [owner]},
        "spec": {
            "replicas": site.spec.get("replicas", 1),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


async def keep_site(api: Any, site: APIObject) -> None:
    finalizers = list(site.metadata.get("finalizers", []))
    if site.metadata.get("deletionTimestamp"):
        dns.delete(site.name)
        if FINALIZER in finalizers:
            finalizers.remove(FINALIZER)
            await site.patch({"metadata": {"finalizers": finalizers}})
        return
    if FINALIZER not in finalizers:
        await site.patch({"metadata": {"finalizers": [*finalizers, FINALIZER]}})
    async with api.call_api(
        "PATCH",
        version="apps/v1",
        url=f"deployments/{site.name}",
        namespace=site.namespace,
        params={"fieldManager": "sites", "force": "true"},
        content=json.dumps(deployment_for(site)),
        headers={"Content-Type": "application/apply-patch+yaml"},
    ) as answer:
        live = answer.json()
    dns.upsert(site.name)
    ready = live.get("status", {}).get("readyReplicas", 0)
    if site.raw.get("status", {}).get("ready") != ready:
        await site.patch({"status": {"ready": ready}}, subresource="status")


async def follow_sites(api: Any) -> None:
    while True:  # a watch that the server ends is the end of the loop within
        async for event, site in api.watch(Site, namespace="default"):
            if event != "DELETED":
                await keep_site(api, site)


async def follow_deployments(api: Any) -> None:
    while True:
        async for _, deployment in api.watch(Deployment, namespace="default", label_selector="site"):
            async for site in api.get(Site, deployment.name, namespace=deployment.namespace):
                await keep_site(api, site)


async def main() -> None:
    api = await kr8s.asyncio.api()
    await asyncio.gather(follow_sites(api), follow_deployments(api))


asyncio.run(main())
