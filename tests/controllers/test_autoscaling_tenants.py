"""What a PodAutoscaler may have asked: hosts that the operator names, and paths of one part."""

import pytest

from controllers.autoscaling.controller import hosts_from
from controllers.autoscaling.hpa import manifest_of
from controllers.autoscaling.pod_autoscaler_spec import policy_of
from reconcile.blocks import AllowedHosts, ReplicaBounds, Unusable
from tests.controllers.autoscaling_specs import NO_HOST, bare, source


@pytest.mark.rule("tenant-06")
@pytest.mark.parametrize("kind", ["domain", "external"])
@pytest.mark.parametrize("endpoint", ["169.254.169.254/x", "[::1]:80", "a.example.com", "b.example.com:81"])
def test_a_host_that_the_operator_does_not_allow_is_refused(kind: str, endpoint: str) -> None:
    one = source(metricSourceType=kind, endpoint=endpoint)
    for hosts in (AllowedHosts(), AllowedHosts(["b.example.com:80"])):
        with pytest.raises(Unusable) as problem:
            policy_of(bare(**one), hosts)
        assert problem.value.reason == "HostNotAllowed"
        assert "POD_AUTOSCALERS_HOSTS" in problem.value.message


@pytest.mark.parametrize("endpoint", ["me@a", "a%2eb", "ⓛocalhost", "a\tb", "a:80:90", "a\nb", "[::1%25lo]"])
def test_an_ambiguous_host_is_refused(endpoint: str) -> None:
    one = source(metricSourceType="domain", endpoint=endpoint)
    with pytest.raises(Unusable) as problem:
        policy_of(bare(**one), AllowedHosts(["*"]))
    assert problem.value.message == NO_HOST


@pytest.mark.rule("tenant-08")
@pytest.mark.parametrize("kind", ["custom", "external"])
@pytest.mark.parametrize("name", ["../../../../v1/namespaces/finance/secrets", "..", "a%2fb"])
def test_the_name_of_a_metric_is_a_single_path_segment(kind: str, name: str) -> None:
    for strategy in ("KPA", "APA"):
        with pytest.raises(Unusable, match="is not a name of a metric"):
            policy_of(bare(**source(metricSourceType=kind, targetMetric=name), scalingStrategy=strategy))
    with pytest.raises(Unusable, match="is not a name of a metric"):
        manifest_of(bare(**source(metricSourceType=kind, targetMetric=name)), ReplicaBounds(maximum=3))


def test_more_metrics_than_the_bound_are_refused_by_name() -> None:
    (one,) = source(port="80")["metricsSources"]
    with pytest.raises(Unusable, match="the maximum is 20"):
        policy_of(bare(metricsSources=[one] * 21))


def test_the_allowed_hosts_come_from_the_environment() -> None:
    hosts = hosts_from({"POD_AUTOSCALERS_HOSTS": "*.monitoring.svc:9090, 10.0.0.0/8"})
    assert hosts.allows("prometheus.monitoring.svc", 9090)
    assert not hosts.allows("prometheus.monitoring.svc", 80)
    assert hosts_from({}) == AllowedHosts()
    with pytest.raises(ValueError, match="POD_AUTOSCALERS_HOSTS"):
        hosts_from({"POD_AUTOSCALERS_HOSTS": "a:port"})
