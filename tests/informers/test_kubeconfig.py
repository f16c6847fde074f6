import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from informers.cluster_connection import ConfigurationProblem, find_kubeconfig, is_loopback_url
from informers.kubeconfig import choose_context

Write = Callable[..., Path]


def kubeconfig(
    context: str = "dev", server: str = "https://127.0.0.1:6443", **changes: Any
) -> dict[str, Any]:
    return {
        "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u", "namespace": "web"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    } | changes


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(content: Any, name: str = "config") -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    return write


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "token").write_text("t")
    return account


IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def test_the_argument_takes_precedence_over_everything(write: Write, pod: Path) -> None:
    path = write(kubeconfig())
    assert find_kubeconfig(path, None, {"KUBECONFIG": "/elsewhere", **IN_POD}, pod) == (path,)


def test_the_variable_takes_precedence_over_the_pod_and_skips_missing_files(write: Write, pod: Path) -> None:
    path = write(kubeconfig())
    listed = os.pathsep.join(["/no/such/file", str(path), ""])
    assert find_kubeconfig(None, None, {"KUBECONFIG": listed, **IN_POD}, pod) == (path,)


def test_the_pod_takes_precedence_over_the_home_folder(home: Path, pod: Path) -> None:
    assert find_kubeconfig(None, None, IN_POD, pod) == "in-cluster"


def test_naming_a_context_requires_a_kubeconfig_even_in_a_pod(home: Path, pod: Path) -> None:
    (home / ".kube").mkdir()
    (home / ".kube" / "config").touch()
    assert find_kubeconfig(None, "dev", IN_POD, pod) == (home / ".kube" / "config",)


def test_pod_variables_without_a_service_account_do_not_make_a_pod(home: Path, pod: Path) -> None:
    (pod / "token").unlink()
    with pytest.raises(ConfigurationProblem, match="no cluster is configured"):
        find_kubeconfig(None, None, IN_POD, pod)


@pytest.mark.parametrize(
    ("argument", "variable", "message"),
    [
        ("/no/such/file", "", "the kubeconfig /no/such/file does not exist"),
        (None, "/no/such/file", "KUBECONFIG is /no/such/file, and there is no such file"),
    ],
)
def test_a_named_file_that_is_missing_is_an_error(
    argument: str | None, variable: str, message: str, home: Path, pod: Path
) -> None:
    with pytest.raises(ConfigurationProblem, match=message):
        find_kubeconfig(argument, None, {"KUBECONFIG": variable, **IN_POD}, pod)


def test_a_context_has_server_namespace_and_whether_it_is_this_machine(write: Write) -> None:
    chosen = choose_context([write(kubeconfig(server="https://127.0.0.1:6443/"))], None)
    connection = chosen.connection
    assert (connection.context, connection.server) == ("dev", "https://127.0.0.1:6443")
    assert (connection.namespace, connection.loopback) == ("web", True)


def test_a_context_without_a_namespace_uses_default(write: Write) -> None:
    content = kubeconfig(contexts=[{"name": "dev", "context": {"cluster": "c", "user": "u"}}])
    assert choose_context([write(content)], None).connection.namespace == "default"


def test_of_several_files_the_first_that_sets_a_value_wins(write: Write) -> None:
    first = write({"current-context": "prod"}, "first")
    second = write(kubeconfig("dev", "https://second:1"), "second")
    third = write(kubeconfig("prod", "https://third:1"), "third")
    connection = choose_context([first, second, third], None).connection
    assert (connection.context, connection.server) == ("prod", "https://second:1")


def test_an_empty_file_among_others_is_skipped(write: Write) -> None:
    empty, full = write("", "empty"), write(kubeconfig(), "full")
    assert choose_context([empty, full], None).paths == (full,)


@pytest.mark.parametrize(
    ("content", "context", "message"),
    [
        ("a: [", None, r"is not YAML at line 1$"),
        ("just words", None, "it holds no mapping"),
        ("", None, "is empty"),
        ({"contexts": {"dev": {}}}, None, "`contexts` is not a list"),
        ({"contexts": [{"context": {}}]}, None, "an entry of `contexts` has no name"),
        (kubeconfig(), "prod", "has no context prod; its contexts: dev$"),
        (kubeconfig(**{"current-context": ""}), None, "no current-context; name one of its contexts: dev$"),
        ({"kind": "Config"}, None, "no current-context; name one of its contexts: none at all$"),
        (kubeconfig(clusters=[]), None, "context dev is for cluster c, which the kubeconfig"),
        (kubeconfig(users=None), None, "context dev is for user u, which the kubeconfig"),
        (kubeconfig(server="127.0.0.1:6443"), None, "expected https://HOST:PORT, got 127.0.0.1:6443$"),
        (kubeconfig(server="https://host:port"), None, "expected https://HOST:PORT, got https://host:port$"),
        (kubeconfig(server="https://u:pw@host:port"), None, "got https://host:port$"),
        (kubeconfig(server="https://u:pw@host"), None, "has a user in its URL.*in the user entry$"),
        (kubeconfig(contexts=[{"name": "dev", "context": "c"}]), None, "`context` of dev is not a mapping$"),
        (kubeconfig(server=""), None, "expected https://HOST:PORT, got nothing$"),
    ],
)
def test_a_fault_is_reported_in_one_line(
    content: Any, context: str | None, message: str, write: Write
) -> None:
    with pytest.raises(ConfigurationProblem, match=message) as caught:
        choose_context([write(content)], context)
    assert "\n" not in str(caught.value)


def test_an_unreadable_file_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationProblem, match=r"cannot be read: Is a directory$"):
        choose_context([tmp_path], None)


@pytest.mark.parametrize(
    ("server", "loopback"),
    [
        ("https://127.0.0.1:6443", True),
        ("https://127.8.8.8", True),
        ("https://[::1]:6443", True),
        ("https://localhost:6443", True),
        ("https://api.localhost:6443", True),
        ("https://10.0.0.1:6443", False),
        ("https://localhost.example.com", False),
        ("https://127.0.0.1.example.com", False),
    ],
)
def test_only_this_machine_is_loopback(server: str, loopback: bool) -> None:
    assert is_loopback_url(server) is loopback
