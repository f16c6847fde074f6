"""aiohttp and httpx reach a FakeService without a socket, and see its faults as those of a network."""

import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import anyio
import httpx
import pytest
from attrs import frozen

from reconcile import Controller, Object, ObjectMeta, SyncContext, Write, resource
from reconcile.testing import (
    Apply,
    Broken,
    CrashAfter,
    Delete,
    Drop,
    FakeService,
    LoseReply,
    Refuse,
    Scenario,
    ServiceAnswer,
    ServiceCall,
    ServiceCollection,
    SlowReply,
    simulate,
    sweep,
)
from reconcile.testing.faults import Crash, What


@frozen
class Disk:
    name: str
    size: int = 1
    id: str = ""


def echo(call: ServiceCall) -> ServiceAnswer:
    return ServiceAnswer(299, {"bytes": len(call.content), "query": dict(call.query)}, {"x-note": "ü"})


def broken(call: ServiceCall) -> Any:
    raise ZeroDivisionError("a mistake in a route")


def cloud() -> FakeService:
    routes = {"POST /echo": echo, "GET /broken": broken, "HEAD /echo": echo}
    return FakeService("cloud", [ServiceCollection(name="disks", kind=Disk)], routes=routes)


def session(service: FakeService, **options: Any) -> aiohttp.ClientSession:
    return aiohttp.ClientSession("https://cloud.example", connector=service.aiohttp_connector(), **options)


def test_aiohttp_writes_and_reads_under_virtual_time() -> None:
    service = cloud()

    async def main() -> None:
        async with session(service) as http:
            async with http.post("/disks", json={"name": "a"}) as made:
                assert (made.status, await made.json()) == (201, {"name": "a", "size": 1, "id": "disks-1"})
            async with http.get("/disks", params={"name": "a"}) as listed:
                assert [one["id"] for one in (await listed.json())["items"]] == ["disks-1"]
            async with http.head("/echo") as answer:
                assert (answer.status, await answer.read()) == (299, b"")
            async with http.delete("/disks/disks-1") as gone:
                assert (gone.status, await gone.read()) == (204, b"")

    simulate(main)
    assert [str(one) for one in service.line.requests][:2] == ["CREATE //cloud/disks", "GET //cloud/disks"]


async def chunks() -> AsyncIterator[bytes]:
    for number in range(3):
        yield b"x" * (number * 40_000)


@pytest.mark.parametrize("size", [0, 1, 100_000, 900_000])
def test_bodies_of_any_size_arrive_whole(size: int) -> None:
    async def main() -> None:
        async with session(cloud()) as http:
            async with http.post("/echo?a=1&b=%20", data=b"x" * size) as answer:
                assert await answer.json() == {"bytes": size, "query": {"a": "1", "b": " "}}
            async with http.post("/echo", data=chunks()) as answer:
                assert (await answer.json())["bytes"] == 120_000

    simulate(main)


def test_a_large_answer_arrives_whole_and_a_client_may_wait_before_it_sends_a_body() -> None:
    async def main() -> None:
        service = cloud()
        for number in range(100):
            service.resources("disks").create({"name": f"{number}" * 5_000})
        async with session(service) as http:
            async with http.get("/disks") as answer:
                assert len((await answer.json())["items"]) == 100
            async with http.post("/echo", data=b"x" * 10, expect100=True) as answer:
                assert (await answer.json())["bytes"] == 10

    simulate(main)


def test_many_requests_at_a_time_get_their_own_answers() -> None:
    async def main() -> None:
        service = cloud()
        async with session(service) as http:

            async def make(name: str) -> None:
                async with http.post("/disks", json={"name": name}) as made:
                    assert (await made.json())["name"] == name

            async with anyio.create_task_group() as group:
                for number in range(40):
                    group.start_soon(make, f"disk-{number}")
        assert len(service.resources("disks").all()) == 40

    simulate(main)


@pytest.mark.parametrize(("fault", "applied"), [(Drop(), 0), (LoseReply(), 1)])
def test_a_lost_request_or_answer_is_a_connection_error_of_the_client(fault: What, applied: int) -> None:
    async def main() -> None:
        service = cloud()
        service.fail("create", "/disks", fault)
        async with session(service) as http:
            with pytest.raises(aiohttp.ClientConnectionError):
                await http.post("/disks", json={"name": "a"})
        assert len(service.resources("disks").all()) == applied
        service = cloud()
        service.fail("create", "/disks", fault)
        async with httpx.AsyncClient(
            base_url="https://cloud.example", transport=service.httpx_transport()
        ) as http:
            with pytest.raises(httpx.ReadError if applied else httpx.ConnectError):
                await http.post("/disks", json={"name": "a"})
        assert len(service.resources("disks").all()) == applied

    simulate(main)


def test_a_client_that_gives_up_waiting_has_not_prevented_anything() -> None:
    async def main() -> None:
        service = cloud()
        service.fail("create", "/disks", SlowReply(30), times=2)
        async with session(service, timeout=aiohttp.ClientTimeout(total=10)) as http:
            with pytest.raises(TimeoutError):
                await http.post("/disks", json={"name": "a"})
        async with httpx.AsyncClient(
            base_url="https://cloud.example", transport=service.httpx_transport()
        ) as http:
            with pytest.raises(httpx.ReadTimeout):
                await http.post("/disks", json={"name": "b"})
        assert len(service.resources("disks").all()) == 2
        await anyio.sleep(60)

    began = time.perf_counter()
    simulate(main)
    assert time.perf_counter() - began < 10  # the time-outs are virtual


def test_a_planned_crash_passes_the_client_and_ends_the_process() -> None:
    async def main() -> None:
        for number, client in enumerate(("aiohttp", "httpx")):
            service = cloud()
            service.fail("create", "/disks", CrashAfter())
            with pytest.raises(Crash):
                if client == "aiohttp":
                    async with session(service) as http:
                        await http.post("/disks", json={"name": "a"})
                else:
                    async with httpx.AsyncClient(
                        base_url="https://x.example", transport=service.httpx_transport()
                    ) as other:
                        await other.post("/disks", json={"name": "a"})
            assert service.line.crashed, number
            with pytest.raises(Crash):
                await service.call("GET", "/disks")

    simulate(main)


def test_a_refusal_has_its_headers_and_a_mistake_in_a_route_is_raised() -> None:
    async def main() -> None:
        service = cloud()
        service.fail("get", "/disks", Refuse(429, retry_after=7))
        async with session(service) as http:
            async with http.get("/disks") as answer:
                assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
                assert (await answer.json())["error"]["code"] == "refused"
            with pytest.raises(ZeroDivisionError):
                await http.get("/broken")

    simulate(main)


async def test_a_service_works_in_real_time_too() -> None:
    service = cloud()
    async with session(service) as http, http.post("/disks", json={"name": "a"}) as made:
        assert made.status == 201
    async with httpx.AsyncClient(
        base_url="https://cloud.example", transport=service.httpx_transport()
    ) as other:
        assert (await other.get("/disks/disks-1")).json()["name"] == "a"


# --- code that blocks -----------------------------------------------------------------------------


@resource("toys.example.com/v1")
class Volume(Object):
    pass


def volumes(service: FakeService, *, keyed: bool) -> Controller[Volume]:
    def ask(method: str, path: str, body: Any = None, headers: Any = None) -> ServiceAnswer:
        answer = service.call_blocking(method, path, body, headers=headers)
        if not answer.ok and answer.status != 404:
            raise RuntimeError(f"{answer.status} from the cloud")
        return answer

    def made(ctx: SyncContext[Volume]) -> str:
        headers = {"Idempotency-Key": ctx.object.metadata.uid} if keyed else {}
        disk: str = ask("POST", "/disks", {"name": ctx.object.name}, headers).body["id"]
        return disk

    def keep(ctx: SyncContext[Volume]) -> None:
        if "disk" not in ctx.object.metadata.annotations:
            ctx.client.raw.merge(ctx.object, {"metadata": {"annotations": {"disk": made(ctx)}}})

    def drop(ctx: SyncContext[Volume]) -> None:
        ask("DELETE", f"/disks/{ctx.object.metadata.annotations.get('disk') or made(ctx)}")

    return Controller(Volume, keep, cleanup=drop, name="volumes", writes=[Write(Volume, ("patch",))])


DISKS = ServiceCollection(name="disks", kind=Disk, owner=lambda disk: (Volume, disk.name))


@pytest.mark.rule("sim-services")
def test_a_plain_def_calls_a_service_and_meets_its_faults() -> None:
    volume = Volume(metadata=ObjectMeta("data", "default"))
    steps = [Apply(volume), Delete(volume)]

    def scenario(*, keyed: bool) -> Scenario:
        return Scenario(
            controllers=lambda service: volumes(service, keyed=keyed),
            outside=lambda: FakeService("cloud", [DISKS]),
            steps=steps,
        )

    report = sweep(scenario(keyed=True))
    assert report.runs == report.in_full
    with pytest.raises(Broken) as broken:
        sweep(scenario(keyed=False))
    assert broken.value.rules & {"doubles", "leaks", "creates"}
    assert "//cloud/disks" in broken.value.plan.to_json()


def test_blocking_calls_elsewhere_say_what_to_do() -> None:
    with pytest.raises(RuntimeError, match="in an async def await call"):
        cloud().call_blocking("GET", "/disks")
