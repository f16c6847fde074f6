"""Where a scenario finds the services outside the cluster."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from attrs import define

from reconcile.testing import FakeService
from reconcile.testing.fake_services.service import services_of


def dns() -> FakeService:
    return FakeService("dns", [])


@dataclass(slots=True)
class Slotted:
    one: FakeService
    other: object = None


@define
class Attrs:
    one: FakeService
    number: int = 3


class Plain:
    def __init__(self, one: FakeService) -> None:
        self.one = one


@pytest.mark.parametrize(
    "holder", [Slotted, Attrs, Plain, lambda one: one, lambda one: [one], lambda one: {"a": one, "b": 3}]
)
def test_services_are_found_in_what_holds_them(holder: Callable[[FakeService], object]) -> None:
    service = dns()
    assert services_of(holder(service)) == (service,)


@pytest.mark.parametrize("outside", [None, 3, "text", object(), [1], FakeService])
def test_what_has_no_services_is_no_error(outside: object) -> None:
    assert services_of(outside) == ()


def test_two_services_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two services outside have one name: dns, dns"):
        services_of((dns(), dns()))
