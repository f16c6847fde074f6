"""The pytest plugin of reconcile-runtime.

Six fixtures for operators, with virtual time for the tests that use them, and three for tests of whatever
talks to a Kubernetes API server. Until a test uses one, nothing of the runtime is imported, and no test's
loop, mode, clock or outcome is touched: so it can be installed anywhere.
"""

from reconcile.testing.plugin.fixtures import api_server, clock, cluster, faults, manager, nodes
from reconcile.testing.plugin.items import (
    pytest_assertrepr_compare,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_load_initial_conftests,
)
from reconcile.testing.plugin.kube_fixtures import (
    fresh_kube_apiserver,
    kube_apiserver,
    kube_namespace,
    pytest_addoption,
)

__all__ = [
    "api_server",
    "clock",
    "cluster",
    "faults",
    "fresh_kube_apiserver",
    "kube_apiserver",
    "kube_namespace",
    "manager",
    "nodes",
    "pytest_addoption",
    "pytest_assertrepr_compare",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_load_initial_conftests",
]
