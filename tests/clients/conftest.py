"""One embedded server over HTTPS, in a thread of its own, for clients that block."""

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconcile.testing.control_plane import embedded


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    """The kubeconfig of a server that the tests of one client share."""
    with embedded() as endpoint:
        yield endpoint.kubeconfig
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # what clients leave open ends with the server
        gc.collect()
