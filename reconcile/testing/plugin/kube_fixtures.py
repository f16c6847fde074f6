"""Fixtures for tests that know nothing of this library: an API server, and a namespace for each test."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from reconcile.testing.kube_apiserver import KubeApiserver

DEFINITIONS = "kube_apiserver_crds"
OPTIONS = "kube_apiserver_options"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        DEFINITIONS, "files and folders of CustomResourceDefinitions for kube_apiserver", type="paths"
    )
    parser.addini(OPTIONS, "options of `reconcile apiserver` for kube_apiserver", type="args")


@pytest.fixture(scope="session")
def kube_apiserver(pytestconfig: pytest.Config) -> "Iterator[KubeApiserver]":
    """A Kubernetes API server for all tests: `kubeconfig`, `url`, `token`, `ca_file`, `install(*crds)`."""
    with _started(pytestconfig) as server:
        yield server


@pytest.fixture
def fresh_kube_apiserver(pytestconfig: pytest.Config) -> "Iterator[KubeApiserver]":
    """A Kubernetes API server for one test, for what has no namespace; it starts in a second or two."""
    with _started(pytestconfig) as server:
        yield server


@pytest.fixture
def kube_namespace(kube_apiserver: "KubeApiserver") -> Iterator[str]:
    """The name of a namespace of `kube_apiserver` for one test, deleted after it."""
    with kube_apiserver.namespace() as name:
        yield name


@contextmanager
def _started(config: pytest.Config) -> "Iterator[KubeApiserver]":
    from reconcile.testing.kube_apiserver import KubeApiserverFailed, running_kube_apiserver

    with ExitStack() as stack:
        try:
            server = stack.enter_context(
                running_kube_apiserver(config.getini(DEFINITIONS), config.getini(OPTIONS))
            )
        except (KubeApiserverFailed, ValueError) as error:
            pytest.fail(str(error), pytrace=False)
        yield server
