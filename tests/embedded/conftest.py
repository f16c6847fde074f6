"""Fixtures of the embedded server's tests."""

import pytest

from tests.embedded.api_client import Api
from tests.embedded.kubectl_runs import environment, kubectl

__all__ = ["environment", "kubectl"]


@pytest.fixture
def api() -> Api:
    """A server of its own, with the definition of widgets."""
    return Api()
