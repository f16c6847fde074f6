"""When a running server lets the status of a quota follow the objects; on a virtual clock."""

import anyio

from reconcile.embedded.server import STATUS_DELAY
from reconcile.testing import simulate
from tests.embedded.api_client import CONFIG_MAPS, Api, config_map, events
from tests.helpers.tasks import beside

QUOTAS = "/api/v1/namespaces/default/resourcequotas"


def limit(api: Api) -> None:
    api.settled("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "9"}}})


async def counts_over(api: Api, *times: float) -> list[tuple[float, str]]:
    """The counts that a quota shows while config maps are created at these times, and when."""
    watch = api.watch(QUOTAS, resourceVersion=str(api.server.version))
    begun, heard = anyio.current_time(), []

    async def listen() -> None:
        while True:
            await watch.wait()
            for _, quota in events(watch):
                heard.append((round(anyio.current_time() - begun, 3), quota["status"]["used"]["configmaps"]))

    async with beside(api.server.run), beside(listen):
        for number, moment in enumerate(times):
            await anyio.sleep_until(begun + moment)
            api.ok("POST", CONFIG_MAPS, config_map(f"m{number}"))
        await anyio.sleep(10)
    return heard


def test_changes_within_the_delay_are_counted_together(api: Api) -> None:
    limit(api)
    moments = (1.0, 1 + STATUS_DELAY / 2, 1 + STATUS_DELAY * 1.2)
    assert simulate(counts_over, api, *moments) == [
        (round(1 + STATUS_DELAY, 3), "2"),
        (round(1 + STATUS_DELAY * 2.2, 3), "3"),
    ]


def test_a_server_that_is_stopped_during_the_delay_counts_when_it_runs_again(api: Api) -> None:
    limit(api)

    async def run_twice() -> list[tuple[float, str]]:
        async with beside(api.server.run):
            api.ok("POST", CONFIG_MAPS, config_map("early"))
            await anyio.sleep(STATUS_DELAY / 2)
        return await counts_over(api)

    assert simulate(run_twice) == [(STATUS_DELAY, "1")]
