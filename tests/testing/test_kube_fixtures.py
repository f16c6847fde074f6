"""The fixtures for projects that only want an API server, played by such projects in their own process."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reconcile.testing import KubeApiserverFailed, running_kube_apiserver
from tests.docs.blocks import code
from tests.helpers.definitions import definition

PAGE = "docs/how-to/instead-of-envtest.md"

ALONE = """
import json, sys, unittest, urllib.request, ssl

def test_a_namespace_of_its_own(kube_apiserver, kube_namespace):
    made = {"metadata": {"name": "a"}, "data": {"k": "v"}}
    kube_apiserver.request("POST", f"/api/v1/namespaces/{kube_namespace}/configmaps", made)

def test_another_namespace(kube_apiserver, kube_namespace):
    assert kube_apiserver.request("GET", f"/api/v1/namespaces/{kube_namespace}/configmaps")["items"] == []

def test_the_configured_definitions_are_served(kube_apiserver):
    assert kube_apiserver.request("GET", "/apis/example.com/v1/widgets")["kind"] == "WidgetList"

def test_the_configured_options_hold(kube_apiserver):
    assert len(kube_apiserver.request("GET", "/api/v1/nodes")["items"]) == 2

def test_a_server_of_its_own(kube_apiserver, fresh_kube_apiserver):
    assert fresh_kube_apiserver.url != kube_apiserver.url
    for server in (fresh_kube_apiserver, kube_apiserver):
        server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "same"}})

def test_other_languages_need_only_three_facts(kube_apiserver):
    request = urllib.request.Request(kube_apiserver.url + "/api/v1/namespaces/default")
    request.add_header("Authorization", "Bearer " + kube_apiserver.token)
    trusted = ssl.create_default_context(cafile=str(kube_apiserver.ca_file))
    handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted)
    with urllib.request.build_opener(*handlers).open(request) as answer:
        assert json.load(answer)["metadata"]["name"] == "default"

def test_nothing_of_the_framework_was_imported(kube_apiserver, kube_namespace):
    heavy = {"aiohttp", "msgspec", "reconcile.embedded", "reconcile.controller", "reconcile.models"}
    assert heavy & set(sys.modules) == set()
"""

CLIENTS = """
import kr8s
import lightkube
import pytest
from kubernetes import client, config
from lightkube.resources.core_v1 import ConfigMap

@pytest.fixture
def core(kube_apiserver):
    with config.new_client_from_config(str(kube_apiserver.kubeconfig)) as api:
        yield client.CoreV1Api(api)

def config_map(name):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data={"k": "v"})

def test_the_official_client(core, kube_namespace):
    core.create_namespaced_config_map(kube_namespace, config_map("a"))
    assert core.read_namespaced_config_map("a", kube_namespace).data == {"k": "v"}

def test_kr8s(core, kube_apiserver, kube_namespace):
    core.create_namespaced_config_map(kube_namespace, config_map("b"))
    api = kr8s.api(kubeconfig=str(kube_apiserver.kubeconfig), namespace=kube_namespace)
    assert [found.name for found in api.get("configmaps")] == ["b"]

def test_lightkube(core, kube_apiserver, kube_namespace):
    core.create_namespaced_config_map(kube_namespace, config_map("c"))
    settings = lightkube.KubeConfig.from_file(str(kube_apiserver.kubeconfig))
    found = lightkube.Client(config=settings, trust_env=False)
    assert found.get(ConfigMap, "c", namespace=kube_namespace).data == {"k": "v"}

def test_code_that_reads_the_environment(monkeypatch, kube_apiserver):
    monkeypatch.setenv("KUBECONFIG", str(kube_apiserver.kubeconfig))
    assert kr8s.api().version()["major"]
"""


def project(folder: Path, tests: str, *settings: str) -> None:
    (folder / "pytest.ini").write_text("\n".join(("[pytest]", *settings)))
    (folder / "test_theirs.py").write_text(tests)


def outcome(folder: Path, *options: str, **variables: str) -> str:
    """What pytest prints for a project, which knows of this one only that it is installed."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST") and name != "KUBEBUILDER_ASSETS"
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "."]
    done = subprocess.run(
        command, cwd=folder, env={**environ, **variables}, capture_output=True, text=True, check=False
    )
    return f"{done.stdout}\n{done.stderr}"


def test_a_project_without_any_client_has_a_server_for_its_tests(tmp_path: Path) -> None:
    crds = tmp_path / "config" / "crd"
    crds.mkdir(parents=True)
    (crds / "widgets.json").write_text(json.dumps(definition("Widget")))
    settings = ("kube_apiserver_crds = config/crd", "kube_apiserver_options = --nodes 2")
    project(tmp_path, ALONE, *settings)
    (tmp_path / "reconcile").mkdir()  # their own package of that name is not taken for ours
    (tmp_path / "reconcile" / "__main__.py").write_text("raise SystemExit('theirs')")
    assert "7 passed" in outcome(tmp_path, https_proxy="http://127.0.0.1:1", HTTPS_PROXY="http://127.0.0.1:1")


def test_projects_with_other_clients_have_one(tmp_path: Path) -> None:
    project(tmp_path, CLIENTS)
    assert "4 passed" in outcome(tmp_path)


def test_the_page_for_other_projects_is_true(tmp_path: Path) -> None:
    (settings,), (tests,) = code(PAGE, "ini"), code(PAGE)
    project(tmp_path, tests, *settings.splitlines()[1:])
    (tmp_path / "config" / "crd").mkdir(parents=True)
    (tmp_path / "config" / "crd" / "sites.json").write_text(json.dumps(definition("Site")))
    assert "2 passed" in outcome(tmp_path)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("kube_apiserver_crds = missing", "missing cannot be read: No such file"),
        ("kube_apiserver_options = --nodes many", "did not start: error: "),
    ],
)
def test_a_bad_setting_is_named(tmp_path: Path, setting: str, said: str) -> None:
    project(tmp_path, "def test_a(kube_apiserver): ...", setting)
    told = outcome(tmp_path)
    assert "1 error" in told
    assert said in told


def test_a_definition_is_installed_during_a_test_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(definition("Widget")))
    bad.write_text(json.dumps({**definition("Gadget"), "metadata": {"name": "others.example.com"}}))
    with running_kube_apiserver() as server:
        server.install(good)
        assert server.request("GET", "/apis/example.com/v1/widgets")["items"] == []
        server.install(good)  # again
        with pytest.raises(KubeApiserverFailed, match=r"422 .*others\.example\.com.* is invalid") as refused:
            server.install(str(bad))
        assert refused.value.status == 422
    assert not server.kubeconfig.exists()


HANGS = """
def test_it(kube_apiserver):
    print(kube_apiserver.kubeconfig.parent, flush=True)
    input()
"""


def test_a_server_ends_with_the_tests_that_are_killed(tmp_path: Path) -> None:
    project(tmp_path, HANGS)
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "."]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    home = next(line.strip() for line in process.stdout if "kube-apiserver-" in line)
    assert servers_in(home)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 10
    while servers_in(home):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def servers_in(home: str) -> list[str]:
    """The processes whose command line names the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode().split("\0")
        except OSError:  # it has ended
            continue
        if f"{home}/kubeconfig" in words:
            found.append(process.name)
    return found
