"""What must not be in the life of an object: values of Secrets, and fields that a class declares secret."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from informers import APIResource, Informer, Snapshot
from reconcile.client.redaction import (
    SecretValues,
    declared_values,
    forms_of,
    is_sensitive,
    replaced,
    texts_in,
)
from reconcile.controller.run_history import RunHistory
from reconcile.runs.run_request import Request

SECRETS_LISTED: Final = 20
"""Secrets whose values are looked for after a run that has listed Secrets."""


def declared_values_of(snapshot: Snapshot, paths: Iterable[tuple[str, ...]]) -> set[str]:
    """The texts in the fields of an object that its class declares secret; very short ones are left out."""
    values = declared_values(snapshot.raw, paths)
    return {*texts_in(msgspec.json.decode(values or b"null"))}


def redactor_of(
    history: RunHistory, request: Request, informers: Sequence[Informer], declared: Iterable[str] = ()
) -> Callable[[str], str]:
    """Hides the values of the Secrets that the known runs of a key have read or written, and `declared`.

    A run that wrote nothing leaves no values behind: those that the caches have now stand in for them.
    """
    bodies = {body for values in _known_values(history, request, informers) for body in values.bodies}
    forms = {form for body in bodies for form in _forms_of(body)}
    forms.update(declared)
    return partial(replaced, forms=sorted(forms, key=len, reverse=True)) if forms else str


@lru_cache(maxsize=32)
def _forms_of(body: bytes) -> frozenset[str]:
    # A certificate takes 10 ms of the manager's loop, and a page asks for the same object every few seconds.
    return frozenset(forms_of(body))


def _known_values(
    history: RunHistory, request: Request, informers: Sequence[Informer]
) -> Iterator[SecretValues]:
    runs = history.past(request)
    yield from (run.details.secrets for run in runs if run.details is not None)
    if history.details is not None:
        yield from (intent.secrets for intent in history.details.intents(request).values())
    bodies = {
        (resource, state.key): state.raw
        for resource, key in {read for run in runs for read in run.reads if is_sensitive(read[0])}
        for state in _cached(informers, resource, key)
    }
    cached = SecretValues()
    for (resource, _), body in bodies.items():
        cached.add(resource, body)
    yield cached


def _cached(informers: Sequence[Informer], resource: APIResource, key: Any) -> Sequence[Snapshot]:
    informer = next((informer for informer in informers if informer.resource == resource), None)
    if informer is None:
        return ()
    if key is None:
        return informer.store.list()[:SECRETS_LISTED]
    found = informer.store.get(key)
    return () if found is None else (found,)
