"""The pytest plugin of reconcile-runtime.

Six fixtures, and virtual time for the tests that use them. Until a test does, nothing of the runtime is
imported, and no test's loop, mode, clock or outcome is touched: so it can be installed anywhere.
"""

from reconcile.testing.plugin.fixtures import api_server, clock, cluster, faults, manager, nodes
from reconcile.testing.plugin.items import (
    pytest_assertrepr_compare,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_load_initial_conftests,
)

__all__ = [
    "api_server",
    "clock",
    "cluster",
    "faults",
    "manager",
    "nodes",
    "pytest_assertrepr_compare",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_load_initial_conftests",
]
