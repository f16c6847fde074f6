"""Asking pods: in virtual time with pages that answer, refuse or hang, and once over real sockets."""

import datetime
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import anyio
import pytest
from aiohttp import web
from attrs import define, field, frozen
from hypothesis import given
from hypothesis import strategies as some

from reconcile import ObjectMeta, SystemClock
from reconcile.blocks import AllowedHosts
from reconcile.blocks.autoscaler.metric_pages import FetchFailed, HttpFetch, MetricSeries
from reconcile.blocks.autoscaler.readings import Missing, Samples
from reconcile.blocks.autoscaler.scraper import Candidates, ScrapeLimits, Scraper
from reconcile.kinds import Pod, PodSpec, PodStatus
from reconcile.kinds.core import PodCondition
from reconcile.testing import VirtualClock, simulate

MADE = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def pod(number: int, *, ready: bool = True, phase: str = "Running", **said: object) -> Pod:
    """The higher the number, the younger."""
    made = MADE + datetime.timedelta(seconds=number)
    metadata = ObjectMeta(f"pod-{number:04d}", "stage", uid=f"uid-{number}", creation_timestamp=made)
    address = str(said.get("address", f"10.0.{number // 250}.{number % 250}"))
    status = PodStatus(phase, address, (PodCondition("Ready", str(ready)),))
    found = Pod(metadata=metadata, spec=PodSpec(), status=status)
    return found.with_metadata(deletion_timestamp=MADE) if said.get("going") else found


def url_of(pod: Pod) -> str:
    return pod.name


Answer = bytes | str | float


@define
class Net:
    """Pages by URL: bytes, the reason of a refusal, or seconds after which `load 1` comes, as of others."""

    answers: Mapping[str, Answer] = field(factory=dict)
    asked: list[str] = field(factory=list)

    def __call__(self) -> "FakeFetch":
        return FakeFetch(self)


@frozen
class FakeFetch:
    net: Net

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    async def page(self, url: str, most_bytes: int) -> bytes:
        self.net.asked.append(url)
        answer = self.net.answers.get(url, b"load 1\n")
        if isinstance(answer, bytes):
            return answer
        if isinstance(answer, str):
            raise FetchFailed(answer, "it refuses")
        await anyio.sleep(answer)
        return b"load 1\n"


def asked(
    pods: list[Pod], net: Net, *, sampled: bool = False, limits: ScrapeLimits | None = None, times: int = 1
) -> tuple[list[Samples], float]:
    """The readings of so many runs, one right after the other, and how many virtual seconds they took."""

    async def run() -> tuple[list[Samples], float]:
        scraper = Scraper(VirtualClock(0), limits or ScrapeLimits(), net)
        began = anyio.current_time()
        heard = [
            await scraper.ask(Candidates.among(pods), url_of, MetricSeries("load").value, sampled=sampled)
            for _ in range(times)
        ]
        return heard, anyio.current_time() - began

    return simulate(run)


# --- who is asked ---------------------------------------------------------------------------------------


@pytest.mark.rule("autoscale-candidates")
def test_only_ready_pods_with_an_address_that_are_not_terminating_are_scraped() -> None:
    net = Net()
    pods = [
        pod(1),
        pod(2, ready=False),
        pod(3, ready=False, phase="Pending", address=""),
        pod(4, address=""),
        pod(5, going=True),
        pod(6, phase="Failed", ready=False),
    ]
    (heard,), _ = asked(pods, net)
    assert net.asked == ["pod-0001"]
    assert (heard.known, heard.unready, heard.ignored) == ((1000,), 3, 2)


@pytest.mark.rule("kpa-4d-18")
def test_a_pod_that_fails_is_replaced_by_the_next_oldest() -> None:
    net = Net({"pod-0000": "ConnectionRefused"})
    (heard,), _ = asked([pod(number) for number in range(5)], net, sampled=True)
    assert heard.filled
    assert (len(heard.known), heard.missing) == (4, {"ConnectionRefused": 1})
    assert sorted(net.asked) == [f"pod-{number:04d}" for number in range(5)]


@pytest.mark.rule("kpa-4d-18")
def test_an_incomplete_sample_is_marked_and_keeps_its_values() -> None:
    (heard,), _ = asked([pod(n) for n in range(4)], Net({"pod-0000": "ConnectionRefused"}), sampled=True)
    assert not heard.filled
    assert (len(heard.known), heard.wanted) == (3, 4)


@pytest.mark.rule("kpa-4d-19")
def test_without_pods_nothing_is_scraped_and_the_oldest_are_scraped_first() -> None:
    net = Net()
    (heard,), _ = asked([], net, sampled=True)
    assert heard == Samples()
    asked([pod(number) for number in reversed(range(10))], net, sampled=True)
    assert sorted(net.asked) == [f"pod-{number:04d}" for number in range(7)]


# --- what it costs --------------------------------------------------------------------------------------


@pytest.mark.rule("autoscale-deadline")
@pytest.mark.parametrize("dead", [0, 1, 100, 1000])
def test_the_duration_of_a_scrape_does_not_grow_with_the_number_of_hanging_pods(dead: int) -> None:
    net = Net({f"pod-{number:04d}": 3600.0 for number in range(dead)})
    (heard,), seconds = asked([pod(number) for number in range(1000)], net)
    assert seconds <= ScrapeLimits().run_seconds
    assert len(heard.known) + heard.lost + heard.unasked == 1000
    assert len(heard.known) >= (1000 - dead) * 0.4


@pytest.mark.rule("autoscale-backoff")
def test_a_failed_pod_is_skipped_for_a_while_and_counts_as_missing() -> None:
    net = Net({"pod-0000": "ConnectionRefused"})
    heard, _ = asked([pod(0), pod(1)], net, times=3)
    assert net.asked.count("pod-0000") == 1
    assert all(one.missing == {"ConnectionRefused": 1} for one in heard)


def test_a_failed_pod_is_scraped_again_later() -> None:
    async def run() -> list[int]:
        net = Net({"pod-0000": "ConnectionRefused"})
        scraper = Scraper(VirtualClock(0), ScrapeLimits(backoff=5.0, backoff_limit=20.0), net)
        counts = []
        for _ in range(70):
            await scraper.ask(Candidates.among([pod(0)]), url_of, MetricSeries("load").value)
            counts.append(len(net.asked))
            await anyio.sleep(1)
        net.answers = {}
        await anyio.sleep(30)
        heard = await scraper.ask(Candidates.among([pod(0)]), url_of, MetricSeries("load").value)
        assert heard.known == (1000,)
        return counts

    assert simulate(run)[-1] == 5  # at 0, 5, 15, 35 and 55 s, a little later each


@given(some.lists(some.sampled_from([b"load 0\n", b"", b"\xff", "Refused", 3600.0]), max_size=12))
def test_an_unknown_value_is_never_zero(answers: list[Answer]) -> None:
    net = Net({f"pod-{number:04d}": answer for number, answer in enumerate(answers)})
    (heard,), _ = asked([pod(number) for number in range(len(answers))], net)
    assert len(heard.known) == answers.count(b"load 0\n")
    assert heard.lost == len(answers) - len(heard.known)


# --- pages ----------------------------------------------------------------------------------------------

PAGE = b"""# HELP load how much
# TYPE load gauge
load{model="a"} 0.25
load{model="b"} 0.5
# TYPE engine:waiting gauge
engine:waiting 3
heat NaN
"""


@pytest.mark.parametrize(
    ("series", "want"),
    [
        (MetricSeries("load"), 750),
        (MetricSeries("load", (("model", "a"),)), 250),
        (MetricSeries("waiting"), 3000),
        (MetricSeries("engine:waiting"), 3000),
        (MetricSeries("oad"), "NoSuchMetric"),
        (MetricSeries("heat"), "NotPrometheusText"),
    ],
)
def test_a_value_is_found_by_name_and_labels(series: MetricSeries, want: int | str) -> None:
    found = series.value(PAGE)
    assert (found.reason if isinstance(found, Missing) else found) == want


@pytest.mark.rule("autoscale-bad-page")
@pytest.mark.parametrize("page", [b"<html>load</html>", b'{"load": 1}', b"\xff\xfe", b"load one", b"load{ 1"])
def test_text_that_is_not_in_the_prometheus_format_has_no_value(page: bytes) -> None:
    found = MetricSeries("load").value(page)
    assert isinstance(found, Missing)
    assert found.reason == "NotPrometheusText"


@given(some.binary(max_size=200))
def test_no_page_crashes_the_parser(page: bytes) -> None:
    assert isinstance(MetricSeries("load").value(page), int | Missing)
    assert isinstance(MetricSeries("load").value(b"load 1\nload " + page), int | Missing)


# --- over sockets ---------------------------------------------------------------------------------------


def loopback() -> HttpFetch:
    return HttpFetch(hosts=AllowedHosts(["127.0.0.0/8"]))


async def over_http(handler: object, *, limits: ScrapeLimits | None = None) -> int | Missing:
    app = web.Application()
    app.router.add_get("/metrics", handler)  # type: ignore[arg-type]
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    scraper = Scraper(SystemClock(), limits or ScrapeLimits(), loopback)
    try:
        return await scraper.page(f"http://127.0.0.1:{port}/metrics", MetricSeries("load").value)
    finally:
        await runner.cleanup()


def reason(found: int | Missing) -> str:
    assert isinstance(found, Missing)
    return found.reason


async def test_a_page_is_fetched_over_http() -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="load 2.5\n")

    assert await over_http(page) == 2500


@pytest.mark.rule("autoscale-bad-page")
async def test_an_endless_page_is_cut_off_by_its_size() -> None:
    async def page(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        with anyio.move_on_after(5):
            while True:
                await answer.write(b"load 1\n" * 1000)
        return answer

    assert reason(await over_http(page, limits=ScrapeLimits(page_bytes=50_000))) == "PageTooLarge"


@pytest.mark.rule("autoscale-bad-page")
async def test_a_trickling_page_is_cut_off_by_its_duration() -> None:
    async def page(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        with anyio.move_on_after(5):
            while True:
                await answer.write(b"l")
                await anyio.sleep(0.02)
        return answer

    assert reason(await over_http(page, limits=ScrapeLimits(pod_seconds=0.2))) == "NoAnswerInTime"


async def test_redirects_are_not_followed_and_bad_answers_have_no_value() -> None:
    async def elsewhere(_: web.Request) -> web.Response:
        raise web.HTTPFound("http://127.0.0.1:1/")

    async def unwell(_: web.Request) -> web.Response:
        return web.Response(status=503, text="load 0\n")

    assert reason(await over_http(elsewhere)) == "BadStatus"
    assert reason(await over_http(unwell)) == "BadStatus"


async def test_a_refused_connection_and_a_broken_address_have_no_value() -> None:
    scraper = Scraper(SystemClock(), fetch=loopback)
    assert (
        reason(await scraper.page("http://127.0.0.1:1/metrics", MetricSeries("load").value))
        == "ConnectionRefused"
    )
    assert reason(await scraper.page("http://[::bad/metrics", MetricSeries("load").value)) == "BadAddress"
