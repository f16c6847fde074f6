"""The objects that have API servers call the webhooks of an operator."""

from collections.abc import Iterable, Sequence

from attrs import frozen

from informers import APIResource
from reconcile.models import Unstructured, kind_of, unstructured_kind
from reconcile.webhooks.routes import CONVERT, DEFAULTS, Route

MutatingConfiguration = unstructured_kind(
    "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", namespaced=False
)
ValidatingConfiguration = unstructured_kind(
    "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", namespaced=False
)
Definition = unstructured_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False)


@frozen
class CallingObject:
    """An object that has the API server call webhooks: a configuration, or a definition."""

    kind: type[Unstructured]
    name: str

    def __str__(self) -> str:
        return f"{self.kind.__name__} {self.name}"

    @property
    def resource(self) -> APIResource:
        return kind_of(self.kind).resource


def calling_objects(routes: Iterable[Route]) -> Sequence[CallingObject]:
    """Those that `configurations_of` and the definitions of converted kinds make of the routes."""
    return list(dict.fromkeys(map(_calling, routes)))


def _calling(route: Route) -> CallingObject:
    if route.function == CONVERT:
        return CallingObject(Definition, route.resource.name)
    kind = MutatingConfiguration if route.function == DEFAULTS else ValidatingConfiguration
    return CallingObject(kind, route.admission.operator)
