"""The operator's tests: the real client, a real server, no cluster, no sleep."""

import dns
from sites import Site, SiteSpec, sites

from reconcile import ObjectMeta
from reconcile.testing import Apply, Delete, FakeClient, Scenario, run_once, sweep

WEB = Site(metadata=ObjectMeta("web", "default"), spec=SiteSpec(image="nginx:1.29"))


async def test_a_site_gets_its_deployment_and_its_name() -> None:
    client = FakeClient(WEB)
    done = await run_once(sites, WEB, client)  # one run: result, writes in order, events, conditions, retry
    assert done.writes == [
        "patch sites default/web",  # the finalizer that cleanup= declares
        "apply deployments default/web",
        "patch sites/status default/web",
    ]
    assert done.undeclared == []  # `reconcile manifests` allows all that it wrote
    assert done.conditions["Ready"]["message"] == "0 ready"
    assert "web" in dns.names


async def test_a_converged_site_writes_nothing() -> None:
    client = FakeClient(WEB)
    await run_once(sites, WEB, client)
    assert (await run_once(sites, WEB, client)).writes == []


async def test_deleting_a_site_deletes_its_name() -> None:
    client = FakeClient(WEB)
    await run_once(sites, WEB, client)
    await client.delete(await client.get(Site, "web", "default"))
    await run_once(sites, WEB, client)
    assert "web" not in dns.names
    assert await client.find(Site, "web", "default") is None


def test_a_site_survives_every_fault() -> None:
    """Once for each crash at a write, each lost answer and each late event: it ends the same."""
    sweep(Scenario(controllers=lambda: sites, steps=[Apply(WEB), Delete(WEB)]))
