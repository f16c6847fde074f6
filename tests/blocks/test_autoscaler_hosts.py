"""Which hosts an autoscaler may ask: by name, and by the address that a connection goes to."""

import socket
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as some

from reconcile import SystemClock
from reconcile.blocks import AllowedHosts, CustomMetric, ExternalMetric, PageMetric, Unusable
from reconcile.blocks.autoscaler.metric_pages import FetchFailed, HttpFetch
from reconcile.blocks.autoscaler.metric_sources import Sight
from reconcile.blocks.autoscaler.readings import Missing
from reconcile.blocks.autoscaler.scraper import Candidates, Scraper
from reconcile.testing import FakeClient

SPECIAL = [
    "127.0.0.1",
    "127.8.9.1",
    "169.254.169.254",
    "0.0.0.0",
    "0.1.2.3",
    "224.0.0.1",
    "255.255.255.255",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "::1",
    "::",
    "fe80::1",
    "fe80::1%lo",
    "ff02::1",
    "fd00:ec2::254",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
]


@pytest.mark.rule("tenant-06")
@pytest.mark.parametrize("address", SPECIAL)
def test_a_special_address_is_refused_unless_it_is_listed_itself(address: str) -> None:
    assert not AllowedHosts().allows_address(address)
    assert not AllowedHosts(["*"]).allows_address(address)
    if "%" not in address:
        assert AllowedHosts([f"[{address}]" if ":" in address else address]).allows_address(address)


@given(some.integers(0, 2**32 - 1), some.sampled_from(["", "::ffff:", "64:ff9b::", "sixtofour"]))
def test_an_ipv4_address_inside_an_ipv6_address_is_judged_as_itself(number: int, prefix: str) -> None:
    plain = socket.inet_ntoa(number.to_bytes(4, "big"))
    inside = f"{prefix}{plain}"
    if prefix == "sixtofour":
        inside = f"2002:{number >> 16:x}:{number & 0xFFFF:x}::"
    hosts = AllowedHosts()
    if not hosts.allows_address(plain):
        assert not hosts.allows_address(inside)


@pytest.mark.parametrize("text", ["2130706433", "127.1", "0x7f.1", "localhost", "", "1.2.3"])
def test_an_incomplete_address_is_refused(text: str) -> None:
    assert not AllowedHosts(["*"]).allows_address(text)


def test_pod_addresses_are_allowed() -> None:
    assert all(
        AllowedHosts().allows_address(one) for one in ("10.1.2.3", "192.168.0.9", "fd00::7", "8.8.8.8")
    )


@pytest.mark.parametrize(
    ("entry", "host", "port", "allowed"),
    [
        ("a.example.com", "A.example.com.", 80, True),
        ("a.example.com", "b.a.example.com", 80, False),
        ("*.example.com:9090", "x.y.example.com", 9090, True),
        ("*.example.com:9090", "x.example.com", 80, False),
        ("*.example.com", "example.com.evil.org", 80, False),
        ("10.0.0.0/8", "10.1.2.3", 80, True),
        ("10.0.0.0/8", "11.1.2.3", 80, False),
        ("[fd00::1]:80", "fd00:0::1", 80, True),
        ("[fd00::1]:80", "fd00::1", 81, False),
    ],
)
def test_a_host_is_allowed_by_name_network_and_port(entry: str, host: str, port: int, allowed: bool) -> None:
    assert AllowedHosts([entry]).allows(host, port) is allowed
    assert not AllowedHosts().allows(host, port)


@pytest.mark.parametrize("entry", ["", "a:b", "a:0", "a:99999", "[::1", "[::1]9"])
def test_an_invalid_entry_is_an_error(entry: str) -> None:
    with pytest.raises(ValueError, match="expected HOST"):
        AllowedHosts([entry])


# --- over real sockets ---------------------------------------------------------------------------------


async def served(*hosts: str, answer: Any = None) -> tuple[web.AppRunner, int, HttpFetch]:
    async def page(_: web.Request) -> web.Response:
        if answer is not None:
            raise answer
        return web.Response(text="load 7\n")

    app = web.Application()
    app.router.add_get("/metrics", page)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = int(runner.addresses[0][1])
    return runner, port, HttpFetch(hosts=AllowedHosts(hosts))


@pytest.mark.rule("tenant-06")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "127.1", "[::ffff:127.0.0.1]"])
async def test_no_spelling_of_the_local_machine_reaches_it(host: str) -> None:
    runner, port, fetch = await served("*")
    try:
        async with fetch:
            with pytest.raises(FetchFailed):
                await fetch.page(f"http://{host}:{port}/metrics", 1000)
    finally:
        await runner.cleanup()


@pytest.mark.rule("tenant-06")
async def test_a_name_that_resolves_to_this_machine_is_refused_and_a_listed_address_is_allowed() -> None:
    runner, port, fetch = await served("127.0.0.0/8", "::1")
    try:
        async with fetch:
            assert await fetch.page(f"http://127.0.0.1:{port}/metrics", 1000) == b"load 7\n"
            assert await fetch.page(f"http://localhost:{port}/metrics", 1000) == b"load 7\n"
        async with HttpFetch(hosts=AllowedHosts(["localhost"])) as other:
            with pytest.raises(FetchFailed):
                await other.page(f"http://localhost:{port}/metrics", 1000)
    finally:
        await runner.cleanup()


@pytest.mark.rule("tenant-07")
async def test_every_failure_of_an_external_page_reads_the_same() -> None:
    found = set()
    for answer in (web.HTTPNotFound(), web.HTTPFound("http://127.0.0.1:1/"), None):
        runner, port, fetch = await served("127.0.0.1", answer=answer)
        client = FakeClient()
        sight = Sight(client, Scraper(SystemClock(), fetch=lambda fetch=fetch: fetch), "a", "", Candidates())
        for number in (port, 1):
            metric = PageMetric(metric="no_such", target=1, url=f"http://127.0.0.1:{number}/metrics")
            found.add(await metric.read(sight))
        await runner.cleanup()
    assert found == {Missing("PageUnread", "the page gives no value; the operator's log says why")}


@pytest.mark.rule("tenant-08")
@pytest.mark.parametrize("name", ["..", ".", "a/../../b", "a%2Fb", "x/y"])
def test_a_metric_that_would_lead_to_another_path_is_refused(name: str) -> None:
    for kind in (CustomMetric, ExternalMetric):
        with pytest.raises(Unusable, match="cannot be the name of a metric"):
            kind(metric=name, target=1)
