"""What a trace must not show: the data of Secrets, and secret fields of models and of services."""

from collections.abc import Iterable

from reconcile.client.redaction import copies_object
from reconcile.models import Object, kind_of
from reconcile.models.secret_fields import is_within, secret_fields
from reconcile.testing.fake_services.service import FakeService

_SECRETS = "secrets"
_HELD = ("data", "stringData")


class Redactor:
    """Knows the secret fields by plural (`service/collection` outside the cluster) and path."""

    def __init__(self, kinds: Iterable[type[Object]], services: Iterable[FakeService] = ()) -> None:
        self._paths: dict[str, set[tuple[str, ...]]] = {}
        for kind in kinds:
            paths = self._paths.setdefault(kind_of(kind).resource.plural, set())
            paths.update(secret_fields(kind))
        for service in services:
            for name, resources in service.collections.items():
                self._paths[f"{service.name}/{name}"] = {(one,) for one in resources.declared.secret}

    def hides(self, plural: str, path: str) -> bool:
        """Whether the field at a path such as `.spec.password` (`[]` for elements of a list) is secret.

        A copy of the object in an annotation is, whatever the object has.
        """
        if copies_object(path):
            return True
        names = tuple(name.removesuffix("[]") for name in path.strip(".").split("."))
        if plural == _SECRETS:
            return bool(names) and names[0] in _HELD
        return any(is_within(names, hidden) for hidden in self._paths.get(plural, ()))
