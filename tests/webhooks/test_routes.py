"""The paths and names of a manager's webhooks."""

import pytest

from reconcile import Controller
from reconcile.kinds import Pod
from reconcile.webhooks import Admission, AdmissionRequest, Refusal
from reconcile.webhooks.routes import Route, routes_of
from tests.webhooks.boxes import BOXES, Box
from tests.webhooks.shops import Shop, ShopBeta


async def keep(box: Box) -> None: ...


async def keep_shop(shop: Shop) -> None: ...


def no_pods(pod: Pod, old: Pod | None, request: AdmissionRequest) -> list[Refusal]:
    return []


def listed(*controllers: Controller[Box] | Controller[Shop]) -> list[tuple[str, str]]:
    return [(route.path, route.name) for route in routes_of(controllers)]


def test_each_function_of_an_admission_has_a_path_and_a_name() -> None:
    assert listed(Controller(Box, keep, admission=BOXES)) == [
        ("/defaults/boxes.shop.example.com", "defaults.boxes.shop.example.com"),
        ("/refuses/boxes.shop.example.com", "refuses.boxes.shop.example.com"),
    ]


def test_a_kind_of_the_core_group_has_a_path_without_group_and_the_operators_name() -> None:
    pods = Admission(Pod, refuses=no_pods, operator="shop.example.com")
    assert listed(Controller(Box, keep, admission=pods)) == [
        ("/refuses/pods", "refuses.pods.shop.example.com")
    ]


def test_a_second_admission_of_a_kind_gets_a_number() -> None:
    pods = [Admission(Pod, refuses=no_pods, operator="shop.example.com") for _ in range(2)]
    assert listed(Controller(Box, keep, admission=pods)) == [
        ("/refuses/pods", "refuses.pods.shop.example.com"),
        ("/refuses/pods-2", "refuses.pods-2.shop.example.com"),
    ]


def test_an_admission_of_two_controllers_is_served_once() -> None:
    both = [Controller(Box, keep, name=name, admission=BOXES) for name in ("one", "two")]
    assert len(listed(*both)) == 2


def test_a_kind_with_functions_between_its_versions_is_converted() -> None:
    (route,) = routes_of([Controller(Shop, keep_shop)])
    assert (route.function, route.path) == ("convert", "/convert/shops.shop.example.com")
    assert route.resource.version == "v1"


def test_an_older_version_of_an_admitted_kind_is_enough_for_conversion() -> None:
    older = Admission(ShopBeta, defaults=lambda shop, request: shop)
    functions = [route.function for route in routes_of([Controller(Box, keep, admission=older)])]
    assert functions == ["defaults", "convert"]


def test_two_webhooks_with_one_name_are_refused_with_the_next_step() -> None:
    from reconcile import Object, resource

    @resource("other.example.com/v1", kind="Box")
    class OtherBox(Object): ...

    other = Admission(OtherBox, defaults=lambda box, request: box, operator="shop.example.com")
    with pytest.raises(ValueError, match=r"defaults\.boxes\.shop\.example\.com.*another operator="):
        routes_of([Controller(Box, keep, admission=[BOXES, other])])


def test_a_route_of_conversion_has_no_admission() -> None:
    (route,) = routes_of([Controller(Shop, keep_shop)])
    assert isinstance(route, Route)
    with pytest.raises(TypeError, match="conversion"):
        _ = route.admission


def test_what_is_neither_an_admission_nor_several_is_refused_at_the_declaration() -> None:
    with pytest.raises(TypeError, match="not iterable"):
        Controller(Box, keep, admission=5)  # type: ignore[arg-type]
