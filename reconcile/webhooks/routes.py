"""What the HTTPS server of a manager serves, and under which names. Pure: from controllers to routes."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from attrs import frozen

from informers import APIResource
from reconcile.controller.admission import Admission
from reconcile.controller.declaration import Controller
from reconcile.models import kind_of
from reconcile.models.conversions import are_convertible
from reconcile.models.versions import families
from reconcile.webhooks.object_conversion import VersionedKind

Function = Literal["defaults", "refuses", "convert"]

DEFAULTS: Final = "defaults"
REFUSES: Final = "refuses"
CONVERT: Final = "convert"


@frozen
class Route:
    """One path of the server, and what answers there.

    `name` is that of the webhook in its configuration, and the label of its metrics.
    """

    function: Function
    path: str
    name: str
    serves: Admission[Any] | VersionedKind

    def __str__(self) -> str:
        return self.name

    @property
    def resource(self) -> APIResource:
        """The kind that is admitted, or the newest version of the kind that is converted."""
        served = self.serves
        return served.resource if isinstance(served, VersionedKind) else kind_of(served.kind).resource

    @property
    def admission(self) -> Admission[Any]:
        """Raises TypeError for a route of conversion."""
        if not isinstance(self.serves, Admission):
            raise TypeError(f"{self.name} is a route of conversion")
        return self.serves


def routes_of(controllers: Iterable[Controller[Any]]) -> Sequence[Route]:
    """The routes of a manager, in the order of its controllers: admission first, then conversion.

    A kind is converted if functions between its versions are declared (`converts`). Raises TypeError if some
    of these are missing, and ValueError for two webhooks with one name.
    """
    controllers = list(controllers)
    admissions = admissions_of(controllers)
    kinds = [*(one.kind for one in controllers), *(admission.kind for admission in admissions)]
    converting = (conversion_route(versions) for versions in families(kinds))
    routes = [*_admitting(admissions), *(route for route in converting if route is not None)]
    _check_names(routes)
    return routes


def admissions_of(controllers: Iterable[Controller[Any]]) -> Sequence[Admission[Any]]:
    """The admissions of all controllers; one that two of them share is served once."""
    found: list[Admission[Any]] = []
    for controller in controllers:
        found += [one for one in controller.admission if all(one is not other for other in found)]
    return found


def numbered(admissions: Iterable[Admission[Any]]) -> Iterable[tuple[str, Admission[Any]]]:
    """Each admission with the plural that stands for it in names: `pods`, and `pods-2` for a second one."""
    numbers: dict[tuple[str, str], int] = {}
    for admission in admissions:
        resource = kind_of(admission.kind).resource
        place = (resource.plural, resource.group)
        number = numbers[place] = numbers.get(place, 0) + 1
        yield (resource.plural if number == 1 else f"{resource.plural}-{number}"), admission


def _admitting(admissions: Iterable[Admission[Any]]) -> Iterable[Route]:
    for plural, admission in numbered(admissions):
        resource = kind_of(admission.kind).resource
        at = f"{plural}.{resource.group}" if resource.group else plural
        name = f"{plural}.{admission.operator}"
        if admission.defaults is not None and set(admission.operations) & {"CREATE", "UPDATE"}:
            yield Route(DEFAULTS, f"/{DEFAULTS}/{at}", f"{DEFAULTS}.{name}", admission)
        if admission.refuses is not None:
            yield Route(REFUSES, f"/{REFUSES}/{at}", f"{REFUSES}.{name}", admission)


def conversion_route(versions: Sequence[type[Any]]) -> Route | None:
    """The route that converts between those versions, the newest first; None if no functions do.

    Raises TypeError if some of the functions are missing.
    """
    if len(versions) < 2 or not are_convertible(versions):
        return None
    kind = VersionedKind(versions)
    place = f"{kind.resource.plural}.{kind.resource.group}"
    return Route(CONVERT, f"/{CONVERT}/{place}", f"{CONVERT}.{place}", kind)


def _check_names(routes: Iterable[Route]) -> None:
    known: dict[str, Route] = {}
    for route in routes:
        other = known.setdefault(route.name, route)
        if other is not route:
            raise ValueError(
                f"the webhooks for {other.resource} and for {route.resource} are both named {route.name}: "
                "give one of the two Admissions another operator="
            )
