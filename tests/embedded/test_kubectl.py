"""Real kubectl against `reconcile apiserver`."""

import json
import re
import subprocess

import pytest

from tests.embedded.kubectl_runs import BUILT_INS, KUBECTL, SAMPLES, Kubectl, widget

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="this machine has no kubectl")


@pytest.mark.rule("api-99")
def test_an_object_is_applied_shown_and_deleted(kubectl: Kubectl) -> None:
    for size, said in ((3, "created"), (3, "unchanged"), (4, "configured")):
        applied = kubectl("apply", "-f", "-", given=widget("one", size, team="a"))
        assert applied == f"widget.demo.example.com/one {said}\n"
    kubectl("create", "-f", "-", given=widget("two", team="b"))

    assert [(row["NAME"], row["SIZE"], row["READY"]) for row in kubectl.table("widgets")] == [
        ("one", "4", ""),
        ("two", "3", ""),
    ]
    assert [row["COLOR"] for row in kubectl.table("wd", "-o", "wide")] == ["red", "red"]
    assert [row["NAME"] for row in kubectl.table("widgets", "-l", "team=b")] == ["two"]
    assert [row["NAME"] for row in kubectl.table("widgets", "--sort-by=.spec.size")] == ["two", "one"]
    assert [row["NAMESPACE"] for row in kubectl.table("widgets", "-A")] == [kubectl.namespace] * 2
    assert "color: red" in kubectl("get", "widget", "one", "-o", "yaml")
    assert kubectl("get", "widgets", "-o", "name").splitlines() == [
        "widget.demo.example.com/one",
        "widget.demo.example.com/two",
    ]

    assert "deleted" in kubectl("delete", "widget", "one")
    assert "NotFound" in kubectl.refused("get", "widget", "one")
    kubectl("delete", "widgets", "--all")
    assert kubectl("get", "widgets") == ""


def test_built_in_objects_are_created_and_shown(kubectl: Kubectl) -> None:
    created = kubectl("create", "-f", "-", given=BUILT_INS).splitlines()
    assert created == [
        "configmap/settings created",
        "secret/password created",
        "pod/lonely created",
        "deployment.apps/web created",
    ]
    (pod,) = kubectl.table("pods", "-o", "wide")
    shown = {"NAME": "lonely", "READY": "0/1", "STATUS": "Pending", "RESTARTS": "0", "NODE": "<none>"}
    assert shown.items() <= pod.items()
    (web,) = kubectl.table("deployments", "-o", "wide")
    assert (web["READY"], web["IMAGES"], web["SELECTOR"]) == ("0/2", "nginx:1", "app=web")
    assert kubectl("get", "secret", "password", "-o", "jsonpath={.data.word}") == "aHVudGVyMg=="
    assert "deployment.apps/web" in kubectl("get", "all")
    assert "AlreadyExists" in kubectl.refused("create", "-f", "-", given=BUILT_INS)


@pytest.mark.rule("api-63")
def test_applying_a_shorter_list_removes_the_other_items(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=BUILT_INS)
    kubectl("apply", "-f", "-", given=BUILT_INS.replace('- {name: A, value: "1"}', ""))
    (container,) = kubectl.read("deployment", "web")["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "B", "value": "2"}]
    assert container["image"] == "nginx:1"


@pytest.mark.rule("api-66")
def test_server_side_apply_shares_an_object_and_reports_conflicts(kubectl: Kubectl) -> None:
    applied = kubectl("apply", "--server-side", "-f", "-", given=widget("one"))
    assert applied == "widget.demo.example.com/one serverside-applied\n"
    other = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    assert "conflict" in kubectl.refused(*other, given=widget("one", 9))
    kubectl(*other, "--force-conflicts", given=widget("one", 9))
    assert kubectl.read("widget", "one")["spec"]["size"] == 9


@pytest.mark.rule("api-11")
@pytest.mark.parametrize("api_version", ["v1", "apps/v1", "nowhere.example.com/v1"])
def test_an_unknown_kind_is_named(kubectl: Kubectl, api_version: str) -> None:
    manifest = json.dumps({"apiVersion": api_version, "kind": "Nothing", "metadata": {"name": "one"}})
    complaint = kubectl.refused("apply", "-f", "-", given=manifest)
    assert f'no matches for kind "Nothing" in version "{api_version}"' in complaint


def test_a_malformed_manifest_is_refused_and_nothing_of_it_is_applied(kubectl: Kubectl) -> None:
    kubectl.refused("apply", "-f", "-", given="apiVersion: v1\nkind: [")
    wrong = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": 1}})
    assert "data.a" in kubectl.refused("apply", "-f", "-", given=wrong)
    assert "not found" in kubectl.refused("get", "configmap", "c")


@pytest.mark.rule("api-136")
@pytest.mark.parametrize("verb", ["create", "apply"])
def test_an_unknown_field_and_a_bad_value_are_refused(kubectl: Kubectl, verb: str) -> None:
    misspelt = widget("one").replace('"size"', '"seize"')
    assert 'unknown field "spec.seize"' in kubectl.refused(verb, "-f", "-", given=misspelt)
    assert "spec.size" in kubectl.refused(verb, "-f", "-", given=widget("one", 101))
    assert "No resources found" in kubectl.run("get", "widgets").stderr


@pytest.mark.rule("api-115")
def test_a_watch_prints_each_change(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=widget("one"))
    with subprocess.Popen(
        kubectl.command("get", "widgets", "--watch"),
        stdout=subprocess.PIPE,
        text=True,
        env=kubectl.environment,
    ) as watching:
        assert watching.stdout
        assert watching.stdout.readline().split() == ["NAME", "SIZE", "READY", "AGE"]
        assert watching.stdout.readline().split()[:2] == ["one", "3"]
        kubectl("patch", "widget", "one", "--type=merge", "-p", '{"spec":{"size":5}}')
        assert watching.stdout.readline().split()[:2] == ["one", "5"]
        watching.terminate()


def test_patches_of_every_type_are_accepted(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=widget("one"))
    kubectl("create", "-f", "-", given=BUILT_INS)
    kubectl("patch", "widget", "one", "--type=merge", "-p", '{"spec":{"color":"blue"}}')
    kubectl("patch", "widget", "one", "--type=json", "-p", '[{"op":"replace","path":"/spec/size","value":8}]')
    spec = kubectl.read("widget", "one")["spec"]
    assert (spec["color"], spec["size"]) == ("blue", 8)
    added = {"spec": {"template": {"spec": {"containers": [{"name": "sidecar", "image": "busybox"}]}}}}
    kubectl("patch", "deployment", "web", "-p", json.dumps(added))
    containers = kubectl.read("deployment", "web")["spec"]["template"]["spec"]["containers"]
    assert {container["name"] for container in containers} == {"nginx", "sidecar"}


@pytest.mark.rule("api-57")
def test_objects_are_scaled_and_labelled_and_deleted_with_their_namespace(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=widget("one", team="a"))
    kubectl("create", "-f", "-", given=BUILT_INS)
    for name in ("widget/one", "deployment/web"):
        assert "scaled" in kubectl("scale", name, "--replicas=7")
        kubectl("label", name, "tier=front", "team-")
        found = kubectl.read(name)
        assert found["spec"]["replicas"] == 7
        assert found["metadata"]["labels"].items() - {("app", "web")} == {("tier", "front")}
    assert kubectl.refused("scale", "widget/one", "--current-replicas=1", "--replicas=2")
    kubectl("delete", "namespace", kubectl.namespace, "--timeout=20s")
    assert "NotFound" in kubectl.refused("get", "namespace", kubectl.namespace)


def test_an_object_is_described_with_its_events(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=BUILT_INS)
    pod = kubectl.read("pod", "lonely")
    about = {name: pod["metadata"][name] for name in ("name", "namespace", "uid")}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "lonely.1"}, "type": "Warning"}
    event |= {"reason": "NoNode", "message": "no node was found"}
    kubectl("create", "-f", "-", given=json.dumps({**event, "involvedObject": {"kind": "Pod", **about}}))
    described = kubectl("describe", "pod", "lonely")
    assert "busybox" in described
    assert "no node was found" in described
    (shown,) = kubectl.table("events")
    assert (shown["TYPE"], shown["REASON"], shown["OBJECT"]) == ("Warning", "NoNode", "pod/lonely")
    kubectl("create", "-f", "-", given=widget("one"))
    assert "Size:" in kubectl("describe", "widget", "one")


@pytest.mark.rule("api-10")
def test_kinds_are_listed_and_explained(kubectl: Kubectl) -> None:
    listed = kubectl("api-resources")
    assert "widgets " in listed
    assert "deployments " in listed
    assert "wd" in kubectl("api-resources", "--api-group=demo.example.com")
    assert "How large it is." in kubectl("explain", "widget.spec.size")
    assert "A thing of which there can be several." in kubectl("explain", "widget")
    told = kubectl("explain", "pod.spec")
    assert re.search(r"activeDeadlineSeconds\s+<integer>\n\s+Optional duration in seconds", told)
    assert re.search(r"containers\s+<\[\]Container>( -required-)?\n\s+List of containers", told)
    assert "imagePullPolicy" in kubectl("explain", "deployment.spec.template.spec.containers")
    assert re.search(r"replicas\s+<integer>", kubectl("explain", "deployment", "--recursive"))
    assert "demo.example.com/v1" in kubectl("api-versions")


@pytest.mark.rule("api-135")
def test_a_diff_shows_the_change_without_making_it(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=widget("one"))
    assert kubectl("diff", "-f", "-", given=widget("one")) == ""
    changed = kubectl.run("diff", "-f", "-", given=widget("one", 6))
    assert changed.returncode == 1
    assert "+  size: 6" in changed.stdout
    assert kubectl.read("widget", "one")["spec"]["size"] == 3
    assert "dry run" in kubectl("apply", "--dry-run=server", "-f", "-", given=widget("two"))
    assert "NotFound" in kubectl.refused("get", "widget", "two")


@pytest.mark.rule("api-114")
def test_a_condition_and_a_deletion_are_waited_for(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=widget("one"))
    ready = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    kubectl("patch", "widget", "one", "--subresource=status", "--type=merge", "-p", ready)
    assert "condition met" in kubectl("wait", "--for=condition=Ready", "widget/one", "--timeout=5s")
    assert kubectl.table("widgets")[0]["READY"] == "True"
    kubectl(
        "patch", "widget", "one", "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/hold"]}}'
    )
    kubectl("delete", "widget", "one", "--wait=false")
    with subprocess.Popen(
        kubectl.command("wait", "--for=delete", "widget/one", "--timeout=20s"), env=kubectl.environment
    ) as waiting:
        kubectl("patch", "widget", "one", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        assert waiting.wait(10) == 0


@pytest.mark.rule("api-14")
def test_imperative_commands_that_send_protobuf_are_accepted(kubectl: Kubectl) -> None:
    created = kubectl("create", "configmap", "settings", "--from-literal=level=debug")
    assert created == "configmap/settings created\n"
    assert kubectl.read("configmap", "settings")["data"] == {"level": "debug"}
    kubectl("create", "secret", "generic", "password", "--from-literal=word=hunter2")
    assert kubectl.read("secret", "password")["data"] == {"word": "aHVudGVyMg=="}
    kubectl("create", "serviceaccount", "robot")
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
    assert kubectl.read("role", "reader")["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
    ]
    kubectl(
        "create", "rolebinding", "readers", "--role=reader", f"--serviceaccount={kubectl.namespace}:robot"
    )
    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3", "--port=80")
    deployment = kubectl.read("deployment", "web")["spec"]
    assert deployment["replicas"] == 3
    assert deployment["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] == 80
    kubectl("create", "service", "clusterip", "web", "--tcp=80:8080")
    assert kubectl.read("service", "web")["spec"]["ports"][0]["targetPort"] == 8080
    assert "created" in kubectl("create", "namespace", f"{kubectl.namespace}-2")


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the users' samples are not beside this repository")
def test_the_users_own_manifests_are_accepted_unchanged(kubectl: Kubectl) -> None:
    definition = SAMPLES / "kuberay" / "crd-rayclusters.yaml"
    assert kubectl("create", "-f", str(definition)).endswith("/rayclusters.ray.io created\n")
    for sample in sorted((SAMPLES / "kuberay").glob("ray-cluster.*.yaml")):
        kubectl("apply", "-f", str(sample))
        kubectl("delete", "-f", str(sample), "--ignore-not-found")
    kubectl("apply", "-f", str(SAMPLES / "kuberay" / "ray-cluster.sample.yaml"))
    (row,) = kubectl.table("rayclusters")
    assert row["DESIRED WORKERS"] == ""
    assert "rayVersion" in kubectl("explain", "raycluster.spec")
