"""Label, field and shard selectors: text in, a predicate over stored objects out."""

from collections.abc import Mapping

from attrs import frozen

from informers.apimachinery.field_selectors import FieldTerm, parse_field_selector, text_at
from informers.apimachinery.label_selectors import Requirement, parse_label_selector
from informers.apimachinery.shard_selectors import ShardRange, parse_shard_selector
from informers.resource import Key
from reconcile.embedded.api import RequestTarget
from reconcile.embedded.engine import Engine
from reconcile.embedded.log import Stored
from reconcile.embedded.refusals import bad_request, bare_server_error, not_found
from reconcile.embedded.served import ServedResource
from reconcile.embedded.stored_forms import object_in


@frozen
class ObjectSelection:
    """What a list or a watch asks for."""

    namespace: str = ""
    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldTerm, ...] = ()
    shards: tuple[ShardRange, ...] = ()
    converted: ServedResource | None = None
    """What the fields are of, if a converter shows them."""

    @property
    def filters(self) -> bool:
        """Whether there is a label or field selector, with which a page has no remainingItemCount."""
        return bool(self.labels or self.fields)

    @property
    def narrows(self) -> bool:
        """Whether any selector is given; the namespace does not count."""
        return bool(self.labels or self.fields or self.shards)

    def matches(self, stored: Stored) -> bool:
        """Whether the object is selected."""
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
        """A cheap first look that rules out other namespaces."""
        return not self.namespace or key.namespace == self.namespace


def selection(resource: ServedResource, namespace: str, query: Mapping[str, str]) -> ObjectSelection:
    """The selection that a request's query describes; 400 for what cannot be understood."""
    return ObjectSelection(
        namespace=namespace,
        labels=parse_labels(query.get("labelSelector", "")),
        fields=parse_fields(query.get("fieldSelector", ""), resource),
        shards=parse_shards(query.get("shardSelector", "")),
        converted=resource if resource.conversion is not None else None,
    )


def require(engine: Engine, target: RequestTarget) -> Stored:
    """The object that a path names; 404 where it is not there."""
    stored = engine.get(target.resource, target.namespace, target.name)
    if stored is None:
        raise not_found(target.resource, target.name)
    return stored


# --- labels and fields -----------------------------------------------------------------------------------


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """`a=b,c in (d,e),!f`: all must be met; 400 for what is not a label selector."""
    try:
        return parse_label_selector(text)
    except ValueError as error:
        raise bad_request(str(error)) from None


def parse_fields(text: str, resource: ServedResource) -> tuple[FieldTerm, ...]:
    """`metadata.name=a,spec.nodeName!=b`: all must hold; 400 for a field that cannot be selected by."""
    if not text:
        return ()
    try:
        terms = parse_field_selector(text)
    except ValueError as error:
        raise bad_request(str(error)) from None
    known = {"metadata.name", *(path.lstrip(".") for path in resource.selectable_fields)}
    if resource.namespaced:
        known.add("metadata.namespace")
    for term in terms:
        if term.path not in known:
            raise bad_request(f"field label not supported: {term.path}")
    return terms


def field_value(stored: Stored, path: str) -> str:
    """The value of a selectable field, as text; empty where it is missing."""
    if path == "metadata.name":
        return stored.key.name
    if path == "metadata.namespace":
        return stored.key.namespace
    if path not in stored.fields:
        obj = stored.decode()
        if stored.encoded_by.custom:
            stored.encoded_by.kept_schema.default(obj)
        stored.fields[path] = text_at(obj, _stored_path(stored, path))
    return stored.fields[path]


def _stored_path(stored: Stored, path: str) -> str:
    """An event may be stored under the field names of the other group."""
    resource = stored.encoded_by
    return path if resource.convert_path is None else resource.convert_path(path, resource.api_version)


# --- shards -----------------------------------------------------------------------------------


def parse_shards(text: str) -> tuple[ShardRange, ...]:
    """`shardRange(object.metadata.uid, '0x…', '0x…') || …`; a bad one is a 500 on the real server too."""
    try:
        return parse_shard_selector(text)
    except ValueError as error:
        raise bare_server_error(str(error)) from None
