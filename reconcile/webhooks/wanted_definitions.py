"""The definition that an operator wants for one of its kinds, from the classes of all its versions."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from informers import APIResource
from reconcile.models import Object, definition_of, kind_of
from reconcile.models.conversions import are_convertible


@frozen
class WantedDefinition:
    """`versions` are the entries of `spec.versions`, by name; the newest is to be stored.

    `webhook` is `spec.conversion.webhook` for the author's functions, as far as the operator sets it; None
    leaves the one that is installed.
    """

    resource: APIResource
    body: Mapping[str, Any]
    versions: Mapping[str, Mapping[str, Any]]
    convertible: bool
    webhook: Mapping[str, Any] | None = None

    @property
    def newest(self) -> str:
        return self.resource.version

    @property
    def name(self) -> str:
        return self.resource.name

    @property
    def conversion(self) -> Mapping[str, Any]:
        """`spec.conversion` of a new definition."""
        if not self.convertible or self.webhook is None:
            return {"strategy": "None"}
        return {"strategy": "Webhook", "webhook": self.webhook}


def wanted_definition(
    versions: Sequence[type[Object]], webhook: Mapping[str, Any] | None = None
) -> WantedDefinition:
    """The definition that a kind should have; `versions` begins with the class to store, as in `families`.

    Raises TypeError as `definition_of` does: versions without functions between them need the same fields.
    """
    newest, *older = versions
    convertible = len(versions) > 1 and are_convertible(versions)
    body = definition_of(newest) if convertible else definition_of(newest, *older)
    entries: list[Mapping[str, Any]] = list(body["spec"]["versions"])
    if convertible:
        # One at a time: `definition_of` refuses versions with different fields, which functions convert.
        entries += [{**definition_of(one)["spec"]["versions"][0], "storage": False} for one in older]
    wanted = WantedDefinition(
        kind_of(newest).resource, body, {entry["name"]: entry for entry in entries}, convertible, webhook
    )
    spec = {**body["spec"], "versions": entries, "conversion": wanted.conversion}
    return WantedDefinition(
        wanted.resource,
        {**body, "spec": spec},
        wanted.versions,
        convertible,
        webhook if convertible else None,
    )
