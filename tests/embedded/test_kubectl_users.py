"""Real kubectl as a user other than the administrator, and its imperative commands for more kinds."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconcile.testing.control_plane import embedded

KUBECTL = shutil.which("kubectl")
Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = [
    pytest.mark.skipif(KUBECTL is None, reason="this machine has no kubectl"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    home = tmp_path_factory.mktemp("home")

    def run(*arguments: str, fails: bool = False) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "KUBECONFIG": str(endpoint.kubeconfig), "HOME": str(home)}
        command = [str(KUBECTL), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20)
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done

    with embedded() as endpoint:
        yield run


def test_a_user_can_query_their_own_name_and_rights(kubectl: Kubectl) -> None:
    assert "system:admin" in kubectl("auth", "whoami").stdout
    assert "bob" in kubectl("auth", "whoami", "--as", "bob", "--as-group", "staff").stdout
    assert kubectl("auth", "can-i", "delete", "pods").stdout == "yes\n"
    assert kubectl("auth", "can-i", "delete", "pods", "--as", "bob", fails=True).stdout == "no\n"
    listed = kubectl("auth", "can-i", "--list", "--as", "bob").stdout
    assert "selfsubjectaccessreviews.authorization.k8s.io" in listed


def test_a_service_account_works_with_its_token_and_its_role(kubectl: Kubectl) -> None:
    kubectl("create", "serviceaccount", "robot")
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    kubectl("create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:robot")
    as_robot = ("--token", kubectl("create", "token", "robot", "--duration", "10m").stdout.strip())
    account = "system:serviceaccount:default:robot"
    assert account in kubectl("auth", "whoami", *as_robot).stdout
    kubectl("get", "configmaps", *as_robot)
    refused = kubectl("get", "secrets", *as_robot, fails=True).stderr
    assert f'User "{account}" cannot list resource "secrets"' in refused
    assert kubectl("auth", "can-i", "list", "configmaps", "--as", account).stdout == "yes\n"


@pytest.mark.parametrize(
    "command",
    [
        "clusterrole all-views --aggregation-rule=a=b",
        "cronjob tick --image=busybox --schedule=@hourly -- date",
        "ingress web --class=nginx --rule=a.example.com/*=web:80,tls=cert",
        "poddisruptionbudget web --selector=app=web --min-available=50%",
        "priorityclass high --value=1000 --description=first",
        "quota few --hard=pods=3,services=2",
    ],
)
def test_imperative_creation_sends_readable_protobuf(kubectl: Kubectl, command: str) -> None:
    kind, name, *rest = command.split()
    assert f"{name} created" in kubectl("create", kind, name, *rest).stdout
    assert kubectl("get", kind, name, "-o", "name").stdout.strip().endswith(f"/{name}")


def test_every_field_sent_as_protobuf_is_stored(kubectl: Kubectl) -> None:
    rule = "--rule=a.example.com/x*=web:http,tls=cert"
    kubectl("create", "ingress", "all", rule, "--default-backend=web:80")
    path = "{.spec.rules[0].host} {.spec.rules[0].http.paths[0].path} {.spec.rules[0].http.paths[0].pathType}"
    backend = "{.spec.rules[0].http.paths[0].backend.service} {.spec.tls[0]}"
    shown = kubectl("get", "ingress", "all", "-o", f"jsonpath={path} {backend}").stdout
    assert shown == (
        'a.example.com /x Prefix {"name":"web","port":{"name":"http"}} '
        '{"hosts":["a.example.com"],"secretName":"cert"}'
    )
    kubectl("create", "cronjob", "source", "--image=busybox", "--schedule=@daily")
    kubectl("create", "job", "now", "--from=cronjob/source")
    owner = kubectl("get", "job", "now", "-o", "jsonpath={.metadata.ownerReferences[0].kind}").stdout
    assert owner == "CronJob"


def test_the_columns_of_the_further_kinds_are_shown(kubectl: Kubectl) -> None:
    kubectl("create", "poddisruptionbudget", "shown", "--selector=a=b", "--min-available=1")
    kubectl("create", "quota", "shown", "--hard=configmaps=3")
    head, row = kubectl("get", "pdb", "shown").stdout.splitlines()
    assert head.split("  ")[0] == "NAME"
    assert "MIN AVAILABLE   MAX UNAVAILABLE   ALLOWED DISRUPTIONS" in head
    assert row.split()[:4] == ["shown", "1", "N/A", "0"]
    kubectl("wait", "quota/shown", "--for=jsonpath={.status.used.configmaps}=0")  # its status follows
    assert "configmaps: 0/3" in kubectl("get", "quota", "shown").stdout
    assert "configmaps" in kubectl("describe", "clusterrole", "view").stdout


def test_a_node_is_drained_and_uncordoned(kubectl: Kubectl, tmp_path: Path) -> None:
    manifest = tmp_path / "node.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: worker}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: guest}\n"
        "spec: {nodeName: worker, containers: [{name: a, image: a}]}\n"
    )
    kubectl("apply", "-f", str(manifest))
    drained = kubectl("drain", "worker", "--force", "--grace-period=0", "--timeout=10s")
    assert "pod/guest evicted" in drained.stdout
    assert kubectl("get", "node", "worker", "-o", "jsonpath={.spec.unschedulable}").stdout == "true"
    kubectl("uncordon", "worker")


def test_a_deployment_is_exposed(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx")
    kubectl("expose", "deployment", "web", "--port=80")
    assert kubectl("get", "service", "web", "-o", "jsonpath={.spec.selector}").stdout == '{"app":"web"}'
