"""The histograms of runs are shown as prometheus-client's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.openmetrics import exposition
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from reconcile.ops.histograms import HistogramFamily

BUCKETS = (0.005, 0.1, 1, 2.5, 60)
LABELS = ("name", "controller")


def shown(registry: CollectorRegistry) -> list[str]:
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if "_created" not in line]


@given(st.lists(st.floats(0, 100) | st.sampled_from(BUCKETS) | st.just(float("inf"))))
def test_observations_are_shown_as_prometheus_client_shows_them(observed: list[float]) -> None:
    theirs, ours = CollectorRegistry(), CollectorRegistry()
    histogram = Histogram("x_seconds", "Time.", LABELS, buckets=BUCKETS, registry=theirs)
    family = HistogramFamily("x_seconds", "Time.", LABELS, BUCKETS, ours)
    for labels in (("a", "b"), ("c", 'quoted "d"\n')):
        histogram.labels(*labels)
        family.labels(*labels)
    for amount in observed:
        histogram.labels("a", "b").observe(amount)
        family.labels("a", "b").observe(amount)
    assert shown(ours) == shown(theirs)
    text = exposition.generate_latest(ours).decode()
    (parsed,) = text_string_to_metric_families(text)
    assert parsed.type == "histogram"


def test_a_registry_refuses_a_second_one_of_a_name_and_takes_one_again_when_it_is_gone() -> None:
    registry = CollectorRegistry()
    family = HistogramFamily("x_seconds", "Time.", (), BUCKETS, registry)
    for again in (HistogramFamily, Histogram):
        with pytest.raises(ValueError, match="Duplicated timeseries"):
            again("x_seconds", "Time.", (), buckets=BUCKETS, registry=registry)
    registry.unregister(family)
    HistogramFamily("x_seconds", "Time.", (), BUCKETS, registry).labels().observe(0.3)
    assert registry.get_sample_value("x_seconds_bucket", {"le": "1.0"}) == 1.0
    assert registry.get_sample_value("x_seconds_bucket", {"le": "0.1"}) == 0.0
