"""Where an autoscaler's readings come from: pages of pods, a page elsewhere, a cluster's metrics APIs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import anyio
import msgspec
from attrs import field, frozen

from informers import ApiError, HttpRequest, get_logger
from informers.resource import is_path_segment
from reconcile.blocks.autoscaler.metric_pages import MetricSeries
from reconcile.blocks.autoscaler.readings import MILLI, Missing, Reading, Samples, Sum, ceil_div, milli_of
from reconcile.blocks.autoscaler.scraper import Candidates, Scraper
from reconcile.blocks.copier.copies import Unusable
from reconcile.client.client import Client
from reconcile.kinds import Pod

_log = get_logger("reconcile.blocks.autoscaler.autoscaler")
_UNREAD = Missing("PageUnread", "the page gives no value; the operator's log says why")


def _part_of_a_path(source: object, attribute: object, name: str) -> None:
    """Raises Unusable for a name that leads to another path, which the manager's rights would open."""
    if not is_path_segment(name):
        raise Unusable("InvalidSpec", f"{name!r} cannot be the name of a metric: / and % are not in one")


@frozen
class Sight:
    """The target's pods by class, and the ways to ask; `not_made` desired replicas do not exist yet."""

    client: Client
    scraper: Scraper
    namespace: str
    selector: str
    candidates: Candidates
    not_made: int = 0


class MetricSource(Protocol):
    """One metric. `target` is the desired value for one pod, in thousandths; `name` is unique."""

    @property
    def name(self) -> str:
        """What distinguishes it from the other metrics of an autoscaler."""
        ...

    @property
    def target(self) -> int:
        """The desired value for one pod, in thousandths."""
        ...

    async def read(self, sight: Sight) -> Reading:
        """Its value now. Raises only errors that end the run; anything else is `Missing`."""
        ...


@frozen(kw_only=True)
class PodMetric:
    """A metric on a page of each Ready pod: the sum of its series that have all `labels` (name, value).

    With `sampled` only as many pods are asked as by Knative.
    """

    metric: str
    target: int
    labels: tuple[tuple[str, str], ...] = ()
    port: int = 80
    path: str = "/metrics"
    scheme: str = "http"
    sampled: bool = False

    @property
    def name(self) -> str:
        """For people too."""
        return f"pod/{self.metric}:{self.port}"

    async def read(self, sight: Sight) -> Samples:
        """A value for each pod that answers."""
        return await sight.scraper.ask(
            sight.candidates,
            self.url_of,
            MetricSeries(self.metric, self.labels).value,
            sampled=self.sampled,
            not_made=sight.not_made,
        )

    def url_of(self, pod: Pod) -> str:
        """Where a pod is asked."""
        address = pod.status.pod_ip
        host = f"[{address}]" if ":" in address else address
        return f"{self.scheme}://{host}:{self.port}/{self.path.lstrip('/')}"


@frozen(kw_only=True)
class PageMetric:
    """A metric on one page, for all pods together; `labels` as of `PodMetric`.

    Check a `url` of an object's author with `AllowedHosts` first. Any failure is the same `Missing`, which
    does not say which server answered; the operator's log does.
    """

    metric: str
    target: int
    labels: tuple[tuple[str, str], ...] = ()
    url: str

    @property
    def name(self) -> str:
        """For people too."""
        return f"page/{self.metric}"

    async def read(self, sight: Sight) -> Sum | Missing:
        """The total."""
        value = await sight.scraper.page(self.url, MetricSeries(self.metric, self.labels).value)
        if isinstance(value, Missing):
            _log.info("page not read", metric=self.metric, reason=value.reason)
            return _UNREAD
        return Sum(value)


@frozen(kw_only=True)
class ResourceMetric:
    """The `cpu` or `memory` that pods use, of the resource metrics API.

    With `of_requests` the target is a share of the containers' requests, in thousandths of a percent;
    without, an amount (cores or bytes, in thousandths).
    """

    resource: str
    target: int
    of_requests: bool = False

    @property
    def name(self) -> str:
        """For people too."""
        return f"resource/{self.resource}"

    async def read(self, sight: Sight) -> Samples | Missing:
        """A value for each Ready pod that is measured."""
        path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{sight.namespace}/pods"
        items = await _items(sight, path, {"labelSelector": sight.selector})
        if isinstance(items, Missing):
            return items
        used = {item["metadata"]["name"]: item for item in items if _name_of(item)}
        values = [self._value(pod, used.get(pod.name)) for pod in sight.candidates.ready]
        return _samples(values, sight)

    def _value(self, pod: Pod, item: Mapping[str, Any] | None) -> int | Missing:
        if item is None:
            return Missing("NotMeasured", "the metrics API has nothing of it")
        try:
            used = sum(milli_of(one["usage"][self.resource]) for one in item["containers"])
            requests = [one.resources.requests for one in pod.spec.containers if self.of_requests]
            asked = sum(milli_of(one[self.resource].value) for one in requests)
        except (KeyError, TypeError, ValueError):
            return Missing("NotMeasured", f"its {self.resource} is not measured, or not requested")
        if not self.of_requests:
            return used
        if asked <= 0:
            return Missing("NothingRequested", f"it requests no {self.resource}")
        return ceil_div(used * 100 * MILLI, asked)


@frozen(kw_only=True)
class CustomMetric:
    """A metric of each pod, of the custom metrics API. Raises Unusable for an invalid name."""

    metric: str = field(validator=_part_of_a_path)
    target: int

    @property
    def name(self) -> str:
        """For people too."""
        return f"custom/{self.metric}"

    async def read(self, sight: Sight) -> Samples | Missing:
        """A value for each Ready pod that is measured."""
        path = f"/apis/custom.metrics.k8s.io/v1beta2/namespaces/{sight.namespace}/pods/*/{self.metric}"
        items = await _items(sight, path, {"labelSelector": sight.selector})
        if isinstance(items, Missing):
            return items
        found = {
            item["describedObject"]["name"]: _quantity(item.get("value"))
            for item in items
            if isinstance(item.get("describedObject"), dict) and "name" in item["describedObject"]
        }
        nothing = Missing("NotMeasured", "the metrics API has nothing of it")
        return _samples([found.get(pod.name, nothing) for pod in sight.candidates.ready], sight)


@frozen(kw_only=True)
class ExternalMetric:
    """A total of all series of the external metrics API. Raises Unusable for an invalid name."""

    metric: str = field(validator=_part_of_a_path)
    target: int
    selector: str = ""

    @property
    def name(self) -> str:
        """For people too."""
        return f"external/{self.metric}"

    async def read(self, sight: Sight) -> Sum | Missing:
        """The total."""
        path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{sight.namespace}/{self.metric}"
        items = await _items(sight, path, {"labelSelector": self.selector} if self.selector else {})
        if isinstance(items, Missing):
            return items
        values = [_quantity(item.get("value")) for item in items]
        known = [value for value in values if not isinstance(value, Missing)]
        if not known or len(known) < len(values):
            return Missing("NotMeasured", f"the metrics API has no numbers for {self.metric}")
        return Sum(sum(known))


async def _items(sight: Sight, path: str, query: Mapping[str, str]) -> Sequence[Mapping[str, Any]] | Missing:
    """The items of a metrics API; Missing after any failure, within the time for a run."""
    missing = Missing("MetricsApiFailed", "the metrics API of the cluster does not answer this")
    with anyio.move_on_after(sight.scraper.limits.run_seconds):
        try:
            answer = await sight.client.transport.request(HttpRequest("GET", path, query))
            if answer.status != 200:
                return missing
            items = msgspec.json.decode(answer.body)["items"]
        except (ApiError, msgspec.DecodeError, KeyError, TypeError):
            return missing
        if isinstance(items, list) and all(isinstance(item, dict) for item in items):
            return items
    return missing


def _name_of(item: Mapping[str, Any]) -> bool:
    metadata = item.get("metadata")
    return isinstance(metadata, dict) and isinstance(metadata.get("name"), str)


def _quantity(value: Any) -> int | Missing:
    try:
        return milli_of(value)
    except (TypeError, ValueError):
        return Missing("NotANumber", "its value is not a quantity")


def _samples(values: Sequence[int | Missing], sight: Sight) -> Samples:
    return Samples(
        known=tuple(value for value in values if not isinstance(value, Missing)),
        missing=dict(Counter(value.reason for value in values if isinstance(value, Missing))),
        unready=len(sight.candidates.unready) + sight.not_made,
        ignored=len(sight.candidates.ignored),
        wanted=len(values),
    )
