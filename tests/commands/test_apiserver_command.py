"""`reconcile apiserver`, as a person meets it."""

import importlib.metadata
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconcile.commands import main
from tests.commands.helpers import Command, complaint, running
from tests.helpers.definitions import definition

BINARY = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: a}
spec: !!binary aGVsbG8=
"""


def address_of(command: Command) -> str:
    return command.wait_for("API server on ").removeprefix("API server on ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_its_address_and_ends_soon_after_a_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    with running("apiserver", "--insecure-http", home=tmp_path) as command:
        url = address_of(command)
        assert url.startswith("http://127.0.0.1:")
        kubeconfig = Path(command.wait_for("export KUBECONFIG=").removeprefix("export KUBECONFIG="))
        assert kubeconfig.is_file()
        command.wait_for("Ctrl-C")
        with urllib.request.urlopen(f"{url}/api/v1/namespaces/default", timeout=5) as answer:
            assert answer.status == 200
        assert command.seconds_to_end(number) < 2
        assert command.process.returncode == 0
        command.wait_for("stopped")
        assert command.complaints == ""
        assert not kubeconfig.parent.exists()
    assert not (tmp_path / ".kube").exists()


def test_json_gives_the_address_in_one_line(tmp_path: Path) -> None:
    with running("apiserver", "--json", home=tmp_path) as command:
        told = json.loads(command.wait_for(""))
        assert told["url"].startswith("https://127.0.0.1:")
        assert Path(told["kubeconfig"]).is_file()
        assert told.keys() == {"url", "kubeconfig", "process"}  # the token is in the file alone
        os.kill(told["process"], signal.SIGTERM)
        assert command.process.wait(timeout=2) == 0
        assert (len(command.lines), command.complaints) == (1, "")


def test_a_requested_kubeconfig_stays_and_a_second_start_overwrites_it(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    seen = []
    for _ in range(2):
        with running("apiserver", "--kubeconfig-out", str(kubeconfig), home=tmp_path) as command:
            assert address_of(command).startswith("https://127.0.0.1:")
            assert command.wait_for("export") == f"export KUBECONFIG={kubeconfig}"
            seen.append(kubeconfig.read_text())
            assert command.seconds_to_end() < 2
    assert seen[0] != seen[1] == kubeconfig.read_text()
    assert "token" in seen[0]


def call(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.loads(answer.read())


def test_with_nodes_a_pod_runs(tmp_path: Path) -> None:
    with running("apiserver", "--insecure-http", "--nodes", "2", home=tmp_path) as command:
        url = address_of(command)
        nodes = call(f"{url}/api/v1/nodes")["items"]
        assert [node["metadata"]["name"] for node in nodes] == ["node-0", "node-1"]
        pods = f"{url}/api/v1/namespaces/default/pods"
        spec = {"containers": [{"name": "main", "image": "busybox"}]}
        call(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec})
        deadline = time.monotonic() + 10
        while (pod := call(f"{pods}/a"))["status"].get("phase") != "Running":
            assert time.monotonic() < deadline, pod
            time.sleep(0.1)
        assert pod["spec"]["nodeName"] in ("node-0", "node-1")


@pytest.mark.rule("workloads-commands")
def test_with_workloads_a_deployment_has_pods(tmp_path: Path) -> None:
    options = ("--insecure-http", "--nodes", "1", "--workloads")
    with running("apiserver", *options, home=tmp_path) as command:
        deployments = f"{address_of(command)}/apis/apps/v1/namespaces/default/deployments"
        containers = [{"name": "main", "image": "busybox"}]
        template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers}}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template}
        call(
            deployments,
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec},
        )
        deadline = time.monotonic() + 20
        while (found := call(f"{deployments}/a"))["status"].get("availableReplicas") != 2:
            assert time.monotonic() < deadline, found
            time.sleep(0.1)


def test_definitions_are_served_when_it_is_ready(tmp_path: Path) -> None:
    folder = tmp_path / "crds"
    folder.mkdir()
    (folder / "widgets.yaml").write_text(json.dumps(definition("Widget")))
    (folder / "kustomization.yaml").write_text("kind: Kustomization\nresources: [widgets.yaml]\n")
    listed = tmp_path / "gadgets.json"
    listed.write_text(json.dumps({"kind": "List", "items": [definition("Gadget")]}))
    options = ("--crds", str(folder), "--crds", str(listed))
    with running("apiserver", "--insecure-http", "--json", *options, home=tmp_path) as command:
        url = json.loads(command.wait_for(""))["url"]
        for plural in ("widgets", "gadgets"):
            assert call(f"{url}/apis/example.com/v1/{plural}")["items"] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file"),
        ("a: [", "is not YAML at line "),
        ("", "has no CustomResourceDefinition"),
        ("kind: ConfigMap", "has no CustomResourceDefinition"),
        (
            "{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition}",
            "of apiextensions.k8s.io/v1beta1, where apiextensions.k8s.io/v1 is served",
        ),
        ("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition}", "without metadata.name"),
        (
            "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: ''}}",
            "without metadata.name",
        ),
        (BINARY, "that is no JSON"),
    ],
)
def test_a_file_without_a_definition_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, said: str
) -> None:
    file = tmp_path / "crd.yaml"
    if text is not None:
        file.write_text(text)
    line = complaint(capsys, "apiserver", "--crds", str(file))
    assert said in line
    assert str(file) in line


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"name": "others.example.com"}, "metadata.name"),
        ({"name": "others.example.com", "labels": 5}, ".labels: expected an object"),
    ],
)
def test_a_definition_that_the_server_refuses_is_named_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], metadata: dict[str, Any], said: str
) -> None:
    file = tmp_path / "crd.yaml"
    file.write_text(json.dumps({**definition("Widget"), "metadata": metadata}))
    line = complaint(capsys, "apiserver", "--crds", str(file))
    assert f"{file}: the definition others.example.com is refused" in line
    assert said in line


def test_a_definition_that_was_read_from_a_server_is_installed_with_its_dates_as_text(tmp_path: Path) -> None:
    widget = definition("Widget")
    schema = widget["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"] = {"since": {"type": "string", "default": "SINCE"}}
    widget["metadata"] |= {"uid": "1", "resourceVersion": "7", "managedFields": [], "creationTimestamp": None}
    file = tmp_path / "crd.yaml"
    file.write_text(yaml.safe_dump({**widget, "status": {}}).replace("SINCE", "2020-01-01"))
    with running("apiserver", "--insecure-http", "--json", "--crds", str(file), home=tmp_path) as command:
        url = json.loads(command.wait_for(""))["url"]
        assert call(f"{url}/apis/example.com/v1/widgets")["items"] == []


def test_it_ends_with_its_input_when_asked_to(tmp_path: Path) -> None:
    with running("apiserver", "--json", "--until-eof", home=tmp_path, stdin=subprocess.PIPE) as command:
        command.wait_for("")
        assert command.process.stdin is not None
        command.process.stdin.write("anything\n")
        command.process.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            command.process.wait(timeout=0.5)
        command.process.stdin.close()
        assert command.process.wait(timeout=5) == 0


def test_workloads_without_nodes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "add --nodes 3" in complaint(capsys, "apiserver", "--workloads")


def test_a_port_in_use_is_reported_in_one_line_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = complaint(capsys, "apiserver", "--port", port, "--kubeconfig-out", str(kubeconfig))
    assert f"port {port} on 127.0.0.1 is in use" in line
    assert "--port" in line
    assert not kubeconfig.exists()


def test_a_token_file_without_a_usable_token_is_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    assert "No such file" in complaint(capsys, "apiserver", "--token-file", str(file))
    file.write_text("\n")
    assert "is empty" in complaint(capsys, "apiserver", "--token-file", str(file))
    file.write_text("two words")
    assert "is not a token" in complaint(capsys, "apiserver", "--token-file", str(file))
    file.write_bytes(b"\xff\xfe")
    assert "is not text" in complaint(capsys, "apiserver", "--token-file", str(file))
    assert "both" in complaint(capsys, "apiserver", "--token-file", str(file), "--token", "x")


def test_a_kubeconfig_that_cannot_be_written_is_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "missing" / "kubeconfig"
    assert "does not exist" in complaint(capsys, "apiserver", "--kubeconfig-out", str(missing))
    monkeypatch.setenv("HOME", str(tmp_path))
    own = tmp_path / ".kube" / "config"
    own.parent.mkdir()
    own.write_text("precious")
    assert "your own kubeconfig" in complaint(capsys, "apiserver", "--kubeconfig-out", str(own))
    assert own.read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "there is no command 'nonsense': see reconcile --help"),
        (["apiserver", "--nonsense"], "No such option"),
        (["apiserver", "--port", "eighty"], "--port"),
        (["apiserver", "--port", "70000"], "70000"),
        (["apiserver", "extra"], "extra"),
    ],
)
def test_a_mistyped_command_is_reported_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in complaint(capsys, *arguments)


def test_the_command_alone_shows_its_help() -> None:
    assert main([]) == 2


def test_the_version_is_that_of_the_installed_distribution(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", {"reconcile-runtime": "1.2.3"}.__getitem__)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "reconcile 1.2.3\n"


def test_without_an_installed_distribution_there_is_no_version(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert "not installed" in complaint(capsys, "--version")


@pytest.mark.parametrize(("option", "status"), [("--rbac", 403), ("--no-rbac", 200)])
def test_users_other_than_the_administrator_need_roles_by_default(
    tmp_path: Path, option: str, status: int
) -> None:
    with running("apiserver", "--insecure-http", option, home=tmp_path) as command:
        url = f"{address_of(command)}/api/v1/namespaces"
        request = urllib.request.Request(url, headers={"Impersonate-User": "anna"})
        try:
            with urllib.request.urlopen(request) as answer:
                answered = answer.status
        except urllib.error.HTTPError as error:
            answered = error.code
            error.close()
        assert answered == status
