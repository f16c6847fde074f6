"""Makes the log in memory from the records on disk."""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from attrs import define, evolve, field

from informers.resource import Key
from reconcile.embedded.durable.reading import Found
from reconcile.embedded.durable.records import Form, Record
from reconcile.embedded.log import DEFINITIONS, Log, Stored, state_of
from reconcile.embedded.registry import ResourceRegistry
from reconcile.embedded.schema import compile_schema
from reconcile.embedded.served import ServedResource


class _Metadata(msgspec.Struct, gc=False):
    """What of an object's metadata is kept beside its body; the rest is passed over, which is much faster."""

    name: str
    uid: str
    namespace: str = ""
    labels: dict[str, str] | None = None
    ownerReferences: list[dict[str, Any]] | None = None
    finalizers: list[str] | None = None
    deletionTimestamp: str | None = None


class _Object(msgspec.Struct, gc=False):
    metadata: _Metadata


_decode_metadata: Final = msgspec.json.Decoder(_Object).decode
_ANYTHING: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def restore(
    found: Found, log: Log, registry: ResourceRegistry, serve: Callable[[Iterable[Stored]], None]
) -> None:
    """Fill an empty log. `serve` gets the newest definitions, and has to serve them in `registry`."""
    forms = _Forms(registry)
    with _without_collections():
        serve(_definitions(found, forms))
        log.begin_anew(found.compacted)
        for record in found.objects:
            log.restore((record.group, record.plural), forms.state(record))
        for record in found.changes:
            if not record.plural:
                log.begin_anew(record.version)
                continue
            new = forms.state(record) if record.body is not None else None
            log.replay((record.group, record.plural), Key(record.namespace, record.name), record.version, new)


def _definitions(found: Found, forms: "_Forms") -> list[Stored]:
    newest: dict[str, Record] = {}
    for record in (*found.objects, *found.changes):
        if (record.group, record.plural) == DEFINITIONS:
            newest[record.name] = record
    return [forms.state(record) for record in newest.values() if record.body is not None]


@define
class _Forms:
    """Finds the resource that encoded a body, or makes one in the place of one that is no longer served."""

    registry: ResourceRegistry
    known: dict[Form, ServedResource] = field(factory=dict)

    def state(self, record: Record) -> Stored:
        assert record.form is not None
        assert record.body is not None
        resource = self.known.get(record.form)
        if resource is None:
            resource = self.known[record.form] = self._find(record.form, record.body)
        whole = resource.selectable_fields and resource.storage_schema is None
        obj = msgspec.json.decode(record.body) if whole else _parts(record.body)
        return state_of(resource, obj, record.version, record.body)

    def _find(self, form: Form, body: bytes) -> ServedResource:
        served = self.registry.get(form.group, form.version, form.plural)
        if served is not None and served.made_from == form.made_from:
            return served
        obj = msgspec.json.decode(body)
        return _stand_in(form, obj, served or self.registry.by_kind(form.group, obj["kind"]))


def _parts(body: bytes) -> Mapping[str, Any]:
    try:
        metadata = _decode_metadata(body).metadata
    except msgspec.ValidationError:  # stored in a form that is no longer accepted
        whole: Mapping[str, Any] = msgspec.json.decode(body)
        return whole
    parts: dict[str, Any] = {"name": metadata.name, "uid": metadata.uid, "namespace": metadata.namespace}
    for name in ("labels", "ownerReferences", "finalizers", "deletionTimestamp"):
        value = getattr(metadata, name)
        if value is not None:
            parts[name] = value
    return {"metadata": parts}


def _stand_in(form: Form, obj: Mapping[str, Any], near: ServedResource | None) -> ServedResource:
    """The resource of a body whose definition has changed or gone: reads convert what it encoded."""
    api_version: str = obj["apiVersion"]
    group, _, version = api_version.rpartition("/")
    if near is not None:
        return evolve(
            near, version=version, storage_schema=None, storage_api_version="", made_from=form.made_from
        )
    kind: str = obj["kind"]
    return ServedResource(
        group=group,
        version=version,
        kind=kind,
        plural=form.plural,
        singular=kind.lower(),
        list_kind=f"{kind}List",
        schema=compile_schema(_ANYTHING),
        namespaced="namespace" in obj["metadata"],
        custom=bool(form.made_from),
        made_from=form.made_from,
    )


@contextmanager
def _without_collections() -> Iterator[None]:
    """While inside, the garbage collector rests: it would look at every object again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
