"""What `kubectl get` shows."""

import datetime
from typing import Any

import pytest
from attrs import define
from hypothesis import given
from hypothesis import strategies as st

from informers.clock import SystemClock
from reconcile.embedded.kinds import BUILT_IN
from reconcile.embedded.kubectl.ages import age, human_duration
from reconcile.embedded.kubectl.tables import Tables
from reconcile.embedded.protocol.jsonpath import BadPath, compile_path
from reconcile.embedded.schema import EMPTY
from reconcile.embedded.served import PathColumn, ServedResource

NOW = datetime.datetime(2026, 3, 1, 12, 0, 0, tzinfo=datetime.UTC)


@define
class StoppedClock(SystemClock):
    def now(self) -> datetime.datetime:
        return NOW


def ago(**span: float) -> str:
    return (NOW - datetime.timedelta(**span)).strftime("%Y-%m-%dT%H:%M:%SZ")


def resource(kind: str, group: str = "") -> ServedResource:
    (found,) = (built_in for built_in in BUILT_IN if (built_in.group, built_in.name) == (group, kind))
    return found.resources[0]


def widgets(*columns: PathColumn) -> ServedResource:
    names = ("Widget", "widgets", "widget", "WidgetList")
    return ServedResource("example.com", "v1", *names, EMPTY, custom=True, columns=columns)


def cells(served: ServedResource, obj: dict[str, Any]) -> dict[str, Any]:
    table = Tables(StoppedClock()).rows(served, [obj])
    (row,) = table["rows"]
    return dict(zip([column["name"] for column in table["columnDefinitions"]], row["cells"], strict=True))


WIDGET = {
    "metadata": {"name": "w", "creationTimestamp": ago(seconds=192), "labels": {"example.com/tier": "web"}},
    "spec": {"size": 3, "ports": [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}], "on": True},
    "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Synced", "status": "True"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3]),
        ("{.spec.size}", [3]),
        ("$.spec.size", [3]),
        (".spec.missing.deeper", []),
        (".spec.ports[1].port", [443]),
        (".spec.ports[-1].port", [443]),
        (".spec.ports[9].port", []),
        (".spec.ports[*].port", [80, 443]),
        (".spec.ports.*.name", ["http", "https"]),
        ('.status.conditions[?(@.type=="Synced")].status', ["True"]),
        (".status.conditions[?(@.type=='Nothing')].status", []),
        (".spec.ports[?(@.port>100)].name", ["https"]),
        (".spec.ports[?( @.port != 80 )].name", ["https"]),
        (".spec.ports[?(@.nodePort)].name", []),
        ("['spec']['size']", [3]),
        (".metadata.labels['example.com/tier']", ["web"]),
        (r".metadata.labels.example\.com/tier", ["web"]),
    ],
)
def test_a_json_path_finds_the_values_of_a_printer_column(path: str, found: list[Any]) -> None:
    assert compile_path(path).find(WIDGET) == found


@pytest.mark.parametrize(
    "path", ["", "spec", ".spec[", ".spec..size", ".a[?(@.b==c)]", "{range .items}", ".a[1:2]"]
)
def test_a_path_unsupported_in_columns_is_refused_by_name(path: str) -> None:
    with pytest.raises(BadPath):
        compile_path(path)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_a_path_never_fails_whatever_the_document_is(document: Any) -> None:
    for path in (".a.b", ".a[0]", ".*", '.a[?(@.b=="c")].d'):
        assert isinstance(compile_path(path).find(document), list)


@pytest.mark.parametrize(
    ("span", "shown"),
    [
        ({"seconds": 0}, "0s"),
        ({"seconds": -1}, "0s"),
        ({"seconds": -2}, "<invalid>"),
        ({"seconds": 119}, "119s"),
        ({"minutes": 2}, "2m"),
        ({"minutes": 3, "seconds": 12}, "3m12s"),
        ({"minutes": 10}, "10m"),
        ({"minutes": 179}, "179m"),
        ({"hours": 3}, "3h"),
        ({"hours": 7, "minutes": 30}, "7h30m"),
        ({"hours": 8}, "8h"),
        ({"hours": 47}, "47h"),
        ({"days": 2}, "2d"),
        ({"days": 7, "hours": 5}, "7d5h"),
        ({"days": 8}, "8d"),
        ({"days": 729}, "729d"),
        ({"days": 730}, "2y"),
        ({"days": 730 + 11}, "2y11d"),
        ({"days": 365 * 9}, "9y"),
    ],
)
def test_a_duration_is_shown_as_in_kubectl(span: dict[str, int], shown: str) -> None:
    assert human_duration(datetime.timedelta(**span).total_seconds()) == shown


def test_the_age_of_a_missing_time_is_unknown_and_of_an_invalid_one_invalid() -> None:
    assert age(None, NOW) == "<unknown>"
    assert age("yesterday", NOW) == "<invalid>"


@pytest.mark.rule("api-124")
def test_a_custom_resource_without_columns_shows_name_and_age() -> None:
    assert cells(widgets(), WIDGET) == {"Name": "w", "Age": "3m12s"}


@pytest.mark.rule("api-124")
def test_a_custom_resource_with_columns_shows_only_those_and_its_name() -> None:
    columns = (
        PathColumn("Size", "integer", ".spec.size"),
        PathColumn("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', priority=1),
        PathColumn("On", "boolean", ".spec.on"),
        PathColumn("Ports", "string", ".spec.ports"),
        PathColumn("Gone", "string", ".spec.nothing"),
        PathColumn("NotInt", "integer", ".metadata.name"),
        PathColumn("Since", "date", ".metadata.creationTimestamp"),
    )
    assert cells(widgets(*columns), WIDGET) == {
        "Name": "w",
        "Size": 3,
        "Ready": "False",
        "On": True,
        "Ports": '[{"port":80,"name":"http"},{"port":443,"name":"https"}]',
        "Gone": None,
        "NotInt": None,
        "Since": "3m12s",
    }


@pytest.mark.rule("api-99")
def test_wide_columns_carry_a_priority() -> None:
    table = Tables(StoppedClock()).rows(resource("Pod"), [])
    assert {column["name"] for column in table["columnDefinitions"] if column["priority"]} == {
        "IP",
        "Node",
        "Nominated Node",
        "Readiness Gates",
    }


def pod(phase: str = "Running", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "creationTimestamp": ago(seconds=5)},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "nodeName": "node-1"},
        "status": {"phase": phase, **status},
    }


def running(name: str, restarts: int = 0, **more: Any) -> dict[str, Any]:
    return {"name": name, "ready": True, "restartCount": restarts, "state": {"running": {}}, **more}


def test_a_running_pod_shows_its_ready_containers_and_its_node() -> None:
    shown = cells(resource("Pod"), pod(containerStatuses=[running("a")], podIP="10.0.0.7"))
    assert shown == {
        "Name": "p",
        "Ready": "1/2",
        "Status": "Running",
        "Restarts": "0",
        "Age": "5s",
        "IP": "10.0.0.7",
        "Node": "node-1",
        "Nominated Node": "<none>",
        "Readiness Gates": "<none>",
    }


def waiting(reason: str) -> dict[str, Any]:
    return {"name": "a", "state": {"waiting": {"reason": reason}}}


def ended(exit_code: int, **more: Any) -> dict[str, Any]:
    return {"name": "a", "state": {"terminated": {"exitCode": exit_code, **more}}}


@pytest.mark.parametrize(
    ("obj", "shown"),
    [
        (pod("Pending"), "Pending"),
        (pod("Failed", reason="Evicted"), "Evicted"),
        (pod(containerStatuses=[waiting("CrashLoopBackOff")]), "CrashLoopBackOff"),
        (pod(containerStatuses=[ended(1, reason="OOMKilled")]), "OOMKilled"),
        (pod(containerStatuses=[ended(3)]), "ExitCode:3"),
        (pod(containerStatuses=[ended(0, signal=9)]), "Signal:9"),
        (pod("Pending", initContainerStatuses=[waiting("ImagePullBackOff")]), "Init:ImagePullBackOff"),
        (pod("Pending", initContainerStatuses=[ended(2, reason="Error")]), "Init:Error"),
        (pod("Pending", initContainerStatuses=[ended(0)], containerStatuses=[waiting("Busy")]), "Busy"),
        (
            pod(
                "Pending",
                conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            ),
            "SchedulingGated",
        ),
    ],
)
def test_the_status_of_a_pod_shows_its_problem(obj: dict[str, Any], shown: str) -> None:
    assert cells(resource("Pod"), obj)["Status"] == shown


def test_a_pod_being_deleted_is_terminating_regardless_of_its_containers() -> None:
    obj = pod(containerStatuses=[running("a")])
    obj["metadata"]["deletionTimestamp"] = ago(seconds=1)
    assert cells(resource("Pod"), obj)["Status"] == "Terminating"


def test_restarts_show_the_time_of_the_last_one() -> None:
    crashed = {"terminated": {"finishedAt": ago(minutes=3)}}
    obj = pod(containerStatuses=[running("a", 2, lastState=crashed), running("b", 1)])
    assert cells(resource("Pod"), obj)["Restarts"] == "3 (3m ago)"


BUILT_INS: list[tuple[ServedResource, dict[str, Any], dict[str, Any]]] = [
    (resource("Secret"), {"type": "Opaque", "data": {"a": "", "b": ""}}, {"Type": "Opaque", "Data": 2}),
    (resource("ConfigMap"), {"data": {"a": ""}, "binaryData": {"b": ""}}, {"Data": 2}),
    (resource("Namespace"), {"status": {"phase": "Active"}}, {"Status": "Active"}),
    (
        resource("Node"),
        {
            "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {"kubeletVersion": "v1.36.2"},
            },
        },
        {"Status": "Ready,SchedulingDisabled", "Roles": "control-plane", "Version": "v1.36.2"},
    ),
    (
        resource("Service"),
        {"spec": {"type": "ClusterIP", "clusterIP": "10.96.0.9", "ports": [{"port": 80, "protocol": "TCP"}]}},
        {"Type": "ClusterIP", "Cluster-IP": "10.96.0.9", "External-IP": "<none>", "Port(s)": "80/TCP"},
    ),
    (
        resource("Deployment", "apps"),
        {
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"spec": {"containers": [{"name": "c", "image": "nginx"}]}},
            },
            "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1},
        },
        {
            "Ready": "1/3",
            "Up-to-date": 2,
            "Available": 1,
            "Containers": "c",
            "Images": "nginx",
            "Selector": "app=web",
        },
    ),
    (
        resource("Job", "batch"),
        {
            "spec": {"completions": 2},
            "status": {"succeeded": 1, "startTime": ago(seconds=30), "conditions": []},
        },
        {"Status": "Running", "Completions": "1/2", "Duration": "30s"},
    ),
    (
        resource("Event"),
        {
            "type": "Warning",
            "reason": "BackOff",
            "message": "no\n",
            "lastTimestamp": ago(seconds=9),
            "involvedObject": {"kind": "Pod", "name": "p"},
        },
        {"Last Seen": "9s", "Type": "Warning", "Reason": "BackOff", "Object": "pod/p", "Message": "no"},
    ),
    (resource("Lease", "coordination.k8s.io"), {"spec": {"holderIdentity": "me"}}, {"Holder": "me"}),
    (
        resource("RoleBinding", "rbac.authorization.k8s.io"),
        {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]},
        {"Role": "Role/r", "Users": "u", "Groups": ""},
    ),
]


@pytest.mark.parametrize(("served", "obj", "shown"), BUILT_INS, ids=[served.kind for served, *_ in BUILT_INS])
def test_a_built_in_kind_has_the_columns_of_kubectl(
    served: ServedResource, obj: dict[str, Any], shown: dict[str, Any]
) -> None:
    got = cells(served, {"metadata": {"name": "x", "creationTimestamp": ago(seconds=5)}, **obj})
    assert shown.items() <= got.items()


@pytest.mark.parametrize("served", [served for served, *_ in BUILT_INS], ids=lambda served: served.kind)
def test_an_empty_object_of_a_built_in_kind_can_still_be_shown(served: ServedResource) -> None:
    assert cells(served, {})
