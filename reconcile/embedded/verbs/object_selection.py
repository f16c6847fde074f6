"""Label, field and shard selectors of a query, and the stored objects that they match."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from attrs import frozen

from informers.apimachinery.field_selectors import FieldTerm, parse_field_selector, text_at
from informers.apimachinery.label_selectors import Requirement, parse_label_selector
from informers.apimachinery.shard_selectors import ShardRange, parse_shard_selector
from informers.resource import Key
from reconcile.embedded.api import RequestTarget
from reconcile.embedded.engine import Engine
from reconcile.embedded.log import Stored
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.refusals import bad_request, bare_server_error, not_found
from reconcile.embedded.served import ServedResource
from reconcile.embedded.stored_forms import object_in

P = TypeVar("P")


@frozen
class ObjectSelection:
    namespace: str = ""
    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldTerm, ...] = ()
    shards: tuple[ShardRange, ...] = ()
    converted: ServedResource | None = None
    """The resource whose fields are selected, if a converter shows them."""

    @property
    def filters(self) -> bool:
        """Whether there is a label or field selector: pages then lack remainingItemCount."""
        return bool(self.labels or self.fields)

    @property
    def narrows(self) -> bool:
        """Whether there is any selector beside the namespace."""
        return bool(self.labels or self.fields or self.shards)

    def matches(self, stored: Stored) -> bool:
        if self.namespace and stored.key.namespace != self.namespace:
            return False
        if not all(one.matches(stored.labels) for one in self.labels):
            return False
        if not all(term.matches(self._value(stored, term.path)) for term in self.fields):
            return False
        namespace = stored.key.namespace
        return not self.shards or any(shard.contains(stored.uid, namespace) for shard in self.shards)

    def _value(self, stored: Stored, path: str) -> str:
        if self.converted is None or path.startswith("metadata."):
            return field_value(stored, path)
        return text_at(object_in(stored, self.converted), path)

    def wants(self, key: Key) -> bool:
        """A cheap check that excludes other namespaces."""
        return not self.namespace or key.namespace == self.namespace


def selection(resource: ServedResource, namespace: str, query: Mapping[str, str]) -> ObjectSelection:
    """Parse the selectors of a query. Raises ApiFailure: 400, or 500 for a bad shard selector."""
    return ObjectSelection(
        namespace=namespace,
        labels=_parsed(parse_label_selector, query.get("labelSelector", ""), bad_request),
        fields=_parsed_fields(query.get("fieldSelector", ""), resource),
        # A bad shard selector is a 500 on a real server too.
        shards=_parsed(parse_shard_selector, query.get("shardSelector", ""), bare_server_error),
        converted=resource if resource.conversion is not None else None,
    )


def check_selectors(query: Mapping[str, str]) -> None:
    """Raises ApiFailure (400) for label or field selectors that cannot be read, whatever they name."""
    _parsed(parse_label_selector, query.get("labelSelector", ""), bad_request)
    _parsed(parse_field_selector, query.get("fieldSelector", ""), bad_request)


def require(engine: Engine, target: RequestTarget) -> Stored:
    """The object that a path names. Raises ApiFailure (404)."""
    stored = engine.get(target.resource, target.namespace, target.name)
    if stored is None:
        raise not_found(target.resource, target.name)
    return stored


# --- labels and fields -----------------------------------------------------------------------------------


def _parsed(parse: Callable[[str], P], text: str, refusal: Callable[[str], ApiFailure]) -> P:
    try:
        return parse(text)
    except ValueError as error:
        raise refusal(str(error)) from None


def _parsed_fields(text: str, resource: ServedResource) -> tuple[FieldTerm, ...]:
    if not text:
        return ()
    terms = _parsed(parse_field_selector, text, bad_request)
    known = {"metadata.name", *(path.lstrip(".") for path in resource.selectable_fields)}
    if resource.namespaced:
        known.add("metadata.namespace")
    for term in terms:
        if term.path not in known:
            raise bad_request(f"field label not supported: {term.path}")
    return terms


def field_value(stored: Stored, path: str) -> str:
    """The value of a selectable field as text; empty if missing."""
    if path == "metadata.name":
        return stored.key.name
    if path == "metadata.namespace":
        return stored.key.namespace
    if path not in stored.fields:
        obj, resource = stored.decode(), stored.encoded_by
        if resource.custom:
            resource.kept_schema.default(obj)
        # An event may be stored under the field names of the other group.
        convert = resource.convert_path
        stored.fields[path] = text_at(obj, convert(path, resource.api_version) if convert else path)
    return stored.fields[path]
