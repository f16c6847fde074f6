"""The 46 bugs that Sieve found in ten operators, by the class that its authors give them (OSDI 2022)."""

from collections.abc import Iterator, Mapping, Sequence

_PERCONA = "https://jira.percona.com/browse/"
_K8SSANDRA = "https://k8ssandra.atlassian.net/browse/"
_GITHUB = "https://github.com/"

_BY_CLASS: Mapping[str, Sequence[str]] = {
    "intermediate state": (
        f"{_K8SSANDRA}K8SSAND-1023",
        f"{_K8SSANDRA}K8SSAND-1362",
        f"{_GITHUB}Orange-OpenSource/casskop/issues/370",
        f"{_PERCONA}K8SPSMDB-578",
        f"{_PERCONA}K8SPSMDB-579",
        f"{_GITHUB}konpyutaika/nifikop/issues/49",
        f"{_GITHUB}konpyutaika/nifikop/issues/79",
        f"{_GITHUB}rabbitmq/cluster-operator/issues/782",
        f"{_PERCONA}K8SPXC-896",
        f"{_PERCONA}K8SPXC-897",
        f"{_PERCONA}K8SPXC-979",
    ),
    "stale state": (
        f"{_K8SSANDRA}K8SSAND-559",
        f"{_GITHUB}instaclustr/cassandra-operator/issues/402",
        f"{_GITHUB}instaclustr/cassandra-operator/issues/407",
        f"{_GITHUB}Orange-OpenSource/casskop/issues/316",
        f"{_GITHUB}Orange-OpenSource/casskop/issues/321",
        f"{_GITHUB}elastic/cloud-on-k8s/issues/5249",
        f"{_GITHUB}elastic/cloud-on-k8s/issues/5274",
        f"{_PERCONA}K8SPSMDB-430",
        f"{_PERCONA}K8SPSMDB-433",
        f"{_PERCONA}K8SPSMDB-438",
        f"{_GITHUB}rabbitmq/cluster-operator/issues/648",
        f"{_GITHUB}rabbitmq/cluster-operator/issues/653",
        f"{_PERCONA}K8SPXC-716",
        f"{_PERCONA}K8SPXC-725",
        f"{_PERCONA}K8SPXC-763",
        f"{_GITHUB}yugabyte/yugabyte-operator/issues/35",
        f"{_GITHUB}yugabyte/yugabyte-operator/issues/36",
        f"{_GITHUB}pravega/zookeeper-operator/issues/312",
        f"{_GITHUB}pravega/zookeeper-operator/issues/314",
    ),
    "unobserved state": (
        f"{_GITHUB}instaclustr/cassandra-operator/issues/398",
        f"{_GITHUB}Orange-OpenSource/casskop/issues/342",
        f"{_PERCONA}K8SPSMDB-585",
        f"{_GITHUB}rabbitmq/cluster-operator/issues/758",
        f"{_PERCONA}K8SPXC-918",
        f"{_GITHUB}yugabyte/yugabyte-operator/issues/39",
        f"{_GITHUB}pravega/zookeeper-operator/issues/453",
    ),
    "indirect": (
        f"{_GITHUB}instaclustr/cassandra-operator/issues/400",
        f"{_GITHUB}instaclustr/cassandra-operator/issues/410",
        f"{_PERCONA}K8SPSMDB-434",
        f"{_PERCONA}K8SPSMDB-590",
        f"{_PERCONA}K8SPSMDB-591",
        f"{_GITHUB}konpyutaika/nifikop/issues/86",
        f"{_GITHUB}yugabyte/yugabyte-operator/issues/33",
        f"{_GITHUB}yugabyte/yugabyte-operator/issues/43",
        f"{_GITHUB}pravega/zookeeper-operator/issues/410",
    ),
}

SIEVE: Mapping[str, str] = {link: name for name, links in _BY_CLASS.items() for link in links}
"""The class of each report, by its link."""


def short_name(link: str) -> str:
    """A report as people write it: `casskop#370`, `K8SPXC-896`."""
    path = link.split("://", 1)[1].split("/")
    return path[-1] if "browse" in path else f"{path[2]}#{path[-1]}"


def not_re_created(sources: Iterator[str]) -> Sequence[str]:
    """The reports of Sieve that no pattern stands for."""
    known = set(sources)
    return [link for link in SIEVE if link not in known]
