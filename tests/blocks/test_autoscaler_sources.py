"""The metrics APIs of a cluster as sources: what they say, and what counts as missing."""

import datetime
from collections.abc import Mapping
from typing import Any

import anyio
import msgspec
import pytest
from attrs import define, field

from informers import Response, Unreachable
from informers.transport import HttpRequest, PassingTransport
from reconcile import Client, ObjectMeta
from reconcile.blocks import (
    CustomMetric,
    ExternalMetric,
    MetricSource,
    Missing,
    PageMetric,
    ResourceMetric,
    Samples,
    Sum,
)
from reconcile.blocks.autoscaler.metric_sources import Sight
from reconcile.blocks.autoscaler.scraper import Candidates, ScrapeLimits, Scraper
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import Pod, PodSpec, PodStatus
from reconcile.kinds.core import PodCondition
from reconcile.testing import VirtualClock, simulate
from tests.controllers.autoscaling import Net

MADE = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@define
class Answer:
    """What the metrics API answers: a body, a status, or an error."""

    body: Any = None
    status: int = 200
    error: Exception | None = None
    seconds: float = 0.0
    asked: list[tuple[str, Mapping[str, str]]] = field(factory=list)


class MetricsApi(PassingTransport):
    def __init__(self, answer: Answer, clock: VirtualClock) -> None:
        super().__init__(InProcessTransport(ApiServer(clock=clock)))
        self.answer = answer

    async def request(self, request: HttpRequest) -> Response:
        self.answer.asked.append((request.path, request.query))
        await anyio.sleep(self.answer.seconds)
        if self.answer.error is not None:
            raise self.answer.error
        content = self.answer.body
        content = content if isinstance(content, bytes) else msgspec.json.encode(content)
        return Response(self.answer.status, body=content)


def pod(name: str, *, ready: bool = True, cpu: str | None = "500m") -> Pod:
    container: dict[str, Any] = {"name": "engine", "image": "e"}
    if cpu is not None:
        container["resources"] = {"requests": {"cpu": cpu}}
    status = PodStatus("Running", "10.0.0.1", (PodCondition("Ready", str(ready)),))
    metadata = ObjectMeta(name, "stage", uid=name, creation_timestamp=MADE)
    return Pod(metadata=metadata, spec=PodSpec(containers=(container,)), status=status)


def read(source: MetricSource, answer: Answer, *pods: Pod) -> Any:
    async def run() -> Any:
        clock = VirtualClock(0)
        client = Client(MetricsApi(answer, clock), clock=clock)
        scraper = Scraper(clock, fetch=Net().fetch)
        return await source.read(Sight(client, scraper, "stage", "app=model", Candidates.among(pods)))

    return simulate(run)


def used(**cpu: str) -> dict[str, Any]:
    return {
        "items": [
            {"metadata": {"name": name}, "containers": [{"name": "engine", "usage": {"cpu": amount}}]}
            for name, amount in cpu.items()
        ]
    }


SHARE = ResourceMetric(resource="cpu", target=50_000, of_requests=True)
AMOUNT = ResourceMetric(resource="cpu", target=500)


@pytest.mark.rule("autoscale-apis")
def test_the_usage_of_a_resource_is_read_for_each_pod() -> None:
    answer = Answer(used(a="250m", b="1"))
    assert read(AMOUNT, answer, pod("a"), pod("b")) == Samples((250, 1000), wanted=2)
    path, query = answer.asked[0]
    assert path == "/apis/metrics.k8s.io/v1beta1/namespaces/stage/pods"
    assert query == {"labelSelector": "app=model"}


@pytest.mark.rule("autoscale-apis")
def test_a_share_is_a_percentage_of_the_requests_of_the_pod() -> None:
    assert read(SHARE, Answer(used(a="250m")), pod("a")) == Samples((50_000,), wanted=1)


@pytest.mark.rule("autoscale-apis")
def test_pods_without_measurements_are_missing_and_not_idle() -> None:
    found = read(SHARE, Answer(used(a="250m")), pod("a"), pod("b"), pod("c", cpu=None), pod("d", ready=False))
    assert found == Samples((50_000,), {"NotMeasured": 2}, unready=1, wanted=3)
    assert read(SHARE, Answer(used(a="1")), pod("a", cpu="0")) == Samples(
        (), {"NothingRequested": 1}, wanted=1
    )


@pytest.mark.rule("autoscale-apis")
def test_a_custom_metric_is_read_for_each_pod() -> None:
    items = [
        {"describedObject": {"name": "a"}, "value": "1500m"},
        {"describedObject": {"name": "b"}, "value": "many"},
        {"value": "7"},
    ]
    answer = Answer({"items": items})
    found = read(CustomMetric(metric="waiting", target=1000), answer, pod("a"), pod("b"), pod("c"))
    assert found == Samples((1500,), {"NotANumber": 1, "NotMeasured": 1}, wanted=3)
    assert answer.asked[0][0] == "/apis/custom.metrics.k8s.io/v1beta2/namespaces/stage/pods/*/waiting"


@pytest.mark.rule("autoscale-apis")
def test_an_external_metric_is_a_total_of_all_its_series() -> None:
    source = ExternalMetric(metric="queue", target=1000, selector="name=a")
    assert read(source, Answer({"items": [{"value": "3"}, {"value": "500m"}]})) == Sum(3500)
    for items in ([], [{"value": "3"}, {"value": "x"}], [{}]):
        assert isinstance(read(source, Answer({"items": items})), Missing)


@pytest.mark.rule("autoscale-apis")
@pytest.mark.parametrize(
    "source", [SHARE, CustomMetric(metric="m", target=1), ExternalMetric(metric="m", target=1)]
)
@pytest.mark.parametrize(
    "answer",
    [
        Answer({"kind": "Status"}, status=404),
        Answer({"kind": "Status"}, status=503),
        Answer(b"<html>"),
        Answer({"items": "none"}),
        Answer({"items": [1]}),
        Answer([]),
        Answer(error=Unreachable("no way")),
        Answer({"items": []}, seconds=ScrapeLimits().run_seconds + 1),
    ],
    ids=lambda answer: str(answer.status if answer.status != 200 else answer.body)[:12],
)
def test_a_failing_metrics_api_gives_a_missing_value_within_its_time(
    source: MetricSource, answer: Answer
) -> None:
    found = read(source, answer, pod("a"))
    assert isinstance(found, Missing)
    assert found.reason == "MetricsApiFailed"


def test_an_external_page_gives_a_total_or_a_missing_value() -> None:
    found = read(PageMetric(metric="load", target=1, url="http://10.1.1.1:80/m"), Answer())
    assert isinstance(found, Missing)
    assert found.reason == "PageUnread"
