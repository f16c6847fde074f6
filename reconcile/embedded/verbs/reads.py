"""Get, list and watch: views of the log."""

import base64
import binascii
import math
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from attrs import evolve, frozen

from informers.apimachinery.field_selectors import FieldTerm
from informers.resource import Key
from informers.transport import Response
from reconcile.embedded.api import ApiRequest, RequestTarget, wanted_form
from reconcile.embedded.engine import Engine
from reconcile.embedded.log import Stored
from reconcile.embedded.protocol.api_failure import ApiFailure, FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden, value_not_supported
from reconcile.embedded.protocol.request_info import flag
from reconcile.embedded.refusals import bad_request, bare_server_error, expired, invalid_options, not_found
from reconcile.embedded.served import ServedResource
from reconcile.embedded.stored_forms import body_in, converted_now, shown
from reconcile.embedded.verbs.object_selection import ObjectSelection, check_selectors, selection
from reconcile.embedded.verbs.rendering import JSON, render_list, render_object
from reconcile.embedded.verbs.watching import WatchStream

# --min-request-timeout: without timeoutSeconds a watch lasts from once to twice as long, by chance.
MIN_WATCH_SECONDS = 1800
_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_HIGHEST = 2**64 - 1
_DIGITS = 20
_SHOWN = 100
_WITH_CONTINUE = "resourceVersionMatch is forbidden when continue is provided"
INCONSISTENT = -1  # the version in a continue token that resumes at a key in the newest state


A = TypeVar("A")


def once_shown(
    states: Sequence[Stored], resource: ServedResource, answer: Callable[[], A]
) -> A | Coroutine[Any, Any, A]:
    """The answer about these states, at once unless one of them needs a converter to be awaited."""
    if resource.conversion is None:
        return answer()
    return _after_conversion(states, resource, answer)


async def _after_conversion(states: Sequence[Stored], resource: ServedResource, answer: Callable[[], A]) -> A:
    for stored in states:
        await shown(stored, resource)
    return answer()


def get(
    engine: Engine, request: ApiRequest, target: RequestTarget
) -> Response | Coroutine[Any, Any, Response]:
    resource = target.resource
    form = wanted_form(request, target.resource, listing=False)
    stored = engine.get(resource, target.namespace, target.name)
    _not_in_future(engine, _single_version(request.query))
    if stored is None:
        raise not_found(resource, target.name)

    def answer(body: bytes) -> Response:
        rendered = render_object(engine.table, resource, body, form, str(stored.version))
        return Response(200, {"content-type": JSON}, rendered)

    if resource.conversion is None:
        return answer(body_in(stored, resource))
    reading = shown if request.query.get("resourceVersion") else converted_now
    return _then(reading(stored, resource), answer)


async def _then(body: Awaitable[bytes], answer: Callable[[bytes], Response]) -> Response:
    return answer(await body)


# --- list -------------------------------------------------------------------------------------


def list_objects(
    engine: Engine, request: ApiRequest, target: RequestTarget
) -> Response | Coroutine[Any, Any, Response]:
    """A page of a collection; all its pages show one version."""
    resource = target.resource
    form = wanted_form(request, target.resource, listing=True)
    check_list_options(request.query)
    chosen = selection(resource, target.namespace, request.query)
    page = page_of(engine, request, target, chosen)
    metadata = page.metadata(resource.custom and form.kind == "whole")
    if chosen.shards and not resource.custom:
        metadata["shardInfo"] = {"selector": request.query["shardSelector"]}

    def answer() -> Response:
        body = render_list(engine.table, resource, page.items, metadata, form)
        return Response(200, {"content-type": JSON}, body)

    return once_shown(page.items, resource, answer)


@frozen
class Page:
    items: Sequence[Stored]
    version: int
    token: str = ""
    remaining: int | None = None

    def metadata(self, always_token: bool) -> dict[str, Any]:
        """The list's metadata; with `always_token` the last page has an empty token instead of none."""
        metadata: dict[str, Any] = {"resourceVersion": str(self.version)}
        if always_token or self.token:
            metadata["continue"] = self.token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return metadata


def page_of(engine: Engine, request: ApiRequest, target: RequestTarget, chosen: ObjectSelection) -> Page:
    """The page that a query asks for; its options have been checked."""
    query = request.query
    limit = _integer(query, "limit")
    start: tuple[str, str] | None = None
    if query.get("continue"):
        version, start = _read_token(engine, query)
    else:
        version = _list_version(engine, query, paged=limit > 0)
        if query.get("resourceVersion") == "0":
            limit = 0
    snapshot = engine.log.snapshot(target.resource.storage_key, version)
    found = _selected(snapshot, chosen, start)
    if limit <= 0 or len(found) < limit or not _has_more(snapshot, chosen, found[limit - 1].key):
        return Page(found, version)
    shown = found[:limit]
    token = _make_token(version, *shown[-1].key)
    return Page(shown, version, token, None if chosen.filters else len(found) - limit)


def _selected(
    snapshot: Sequence[Stored], chosen: ObjectSelection, start: tuple[str, str] | None
) -> Sequence[Stored]:
    if start is None and not chosen.narrows and not chosen.namespace:
        return snapshot
    return [stored for stored in snapshot if (start is None or stored.key > start) and chosen.matches(stored)]


def _has_more(snapshot: Sequence[Stored], chosen: ObjectSelection, last: Key) -> bool:
    """Whether objects follow the last one of a page; as in etcd, selectors do not count."""
    if any(term.path == "metadata.name" for term in chosen.fields):
        return False  # read by its key
    return any(
        stored.key > last and chosen.namespace in ("", stored.key.namespace) for stored in reversed(snapshot)
    )


def check_list_options(query: Mapping[str, str]) -> None:
    """Refuse options that cannot be read (400), then those that do not go together (422).

    As in a real server, this comes before the question whether the resource has the fields of a selector.
    """
    check_selectors(query)
    for number in ("limit", "timeoutSeconds"):
        _integer(query, number)
    match, version = query.get("resourceVersionMatch"), query.get("resourceVersion")
    field = "resourceVersionMatch"
    causes: list[FieldCause] = []
    if match and not version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        causes.append(value_forbidden(field, why))
    if match and query.get("continue"):
        causes.append(value_forbidden(field, _WITH_CONTINUE))
    if match and match not in ("Exact", "NotOlderThan"):
        causes.append(value_not_supported(field, match, ("Exact", "NotOlderThan", "")))
    if match == "Exact" and version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        causes.append(value_forbidden(field, why))
    if "sendInitialEvents" in query:
        causes.append(value_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if causes:
        raise invalid_options("ListOptions", causes)


def _list_version(engine: Engine, query: Mapping[str, str], *, paged: bool) -> int:
    """The version to show: the newest, or for Exact and plain paged lists the requested one."""
    version = _version(query)
    _not_in_future(engine, version)
    match = query.get("resourceVersionMatch")
    if match != "Exact" and not (paged and version and not match):
        return engine.log.version
    if not engine.log.reaches_back_to(version):
        raise expired(version, engine.log.trimmed)
    return version


def _version(query: Mapping[str, str]) -> int:
    text = query.get("resourceVersion", "")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS) or int(text) > _HIGHEST:
        raise bad_request(f"invalid resource version: {text[:_SHOWN]!r}")
    return int(text)


def _integer(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "")
    if not text:
        return 0
    if not _INTEGER.fullmatch(text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _not_in_future(engine: Engine, version: int) -> None:
    if version <= engine.log.version:
        return
    message = f"Timeout: Too large resource version: {version}, current: {engine.log.version}"
    causes = [FieldCause("ResourceVersionTooLarge", "Too large resource version")]
    raise ApiFailure(504, "Timeout", message, {"retryAfterSeconds": 1}, causes)


def _make_token(version: int, namespace: str, name: str) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": version, "start": f"{namespace}/{name}"}
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _read_token(engine: Engine, query: Mapping[str, str]) -> tuple[int, tuple[str, str]]:
    if query.get("resourceVersion") not in (None, "", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    text = query["continue"]
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        version, (namespace, slash, name) = token["rv"], token["start"].partition("/")
        if token["v"] != "meta.k8s.io/v1" or not isinstance(version, int) or not slash:
            raise ValueError("not a token of this server")
    except (ValueError, TypeError, KeyError, AttributeError, binascii.Error, msgspec.DecodeError) as error:
        raise bad_request(f"continue key is not valid: {error}") from error
    if version == INCONSISTENT:
        return engine.log.version, (namespace, name)
    _not_in_future(engine, version)
    if not engine.log.reaches_back_to(version):
        raise _expired_token(namespace, name)
    return version, (namespace, name)


class ExpiredToken(ApiFailure):
    """410 whose `metadata.continue` resumes at the same key in the newest state."""

    def to_json(self) -> dict[str, Any]:
        status = super().to_json()
        status["metadata"] = status.pop("details")
        return status


def _expired_token(namespace: str, name: str) -> ApiFailure:
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new "
        "list without the continue parameter, or use the continue token in this response to retrieve the "
        "remainder of the results. Continuing with the provided token results in an inconsistent list - "
        "objects that were created, modified, or deleted between the time the first chunk was returned and "
        "now may show up in the list."
    )
    token = _make_token(INCONSISTENT, namespace, name)
    return ExpiredToken(410, "Expired", message, {"continue": token})


# --- watch ------------------------------------------------------------------------------------


def watch(
    engine: Engine, request: ApiRequest, target: RequestTarget
) -> WatchStream | Coroutine[Any, Any, WatchStream]:
    """The changes of a collection after a version."""
    query = request.query
    chosen = _watch_selection(request, target)
    form = wanted_form(request, target.resource, listing=False)
    _check_watch_options(query)
    version = _single_version(query)
    bookmarks = flag(query, "allowWatchBookmarks")
    with_state = flag(query, "sendInitialEvents") if "sendInitialEvents" in query else version == 0
    log = engine.log
    initial: Sequence[Stored] = ()
    if with_state:
        _not_in_future(engine, version)
        initial = _selected(log.snapshot(target.resource.storage_key), chosen, None)
        version = log.version
    opened = partial(
        WatchStream,
        log,
        target.resource,
        chosen,
        form,
        after=version or log.version,
        initial=initial,
        mark_initial_end=bookmarks and with_state,
        bookmarks=bookmarks,
        timeout=_integer(query, "timeoutSeconds")
        or math.floor(MIN_WATCH_SECONDS * (1 + engine.clock.random())),
        table=engine.table,
    )
    return once_shown(initial, target.resource, opened)


def _watch_selection(request: ApiRequest, target: RequestTarget) -> ObjectSelection:
    query = request.query
    chosen = selection(target.resource, target.namespace, query)
    if not target.name:
        return chosen
    named = FieldTerm("metadata.name", target.name)
    if chosen.fields and named not in chosen.fields:
        raise bad_request("fieldSelector metadata.name doesn't match requested name")
    return evolve(chosen, fields=(*chosen.fields, named))


def _check_watch_options(query: Mapping[str, str]) -> None:
    asked, match = "sendInitialEvents" in query, query.get("resourceVersionMatch")
    field = "resourceVersionMatch"
    causes: list[FieldCause] = []
    if asked and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(value_forbidden(field, why))
    if match and not asked:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(value_forbidden(field, why))
    if match and match != "NotOlderThan":
        causes.append(value_not_supported(field, match, ("NotOlderThan",)))
    if match and query.get("continue"):
        causes.append(value_forbidden(field, _WITH_CONTINUE))
    if causes:
        raise invalid_options("ListOptions", causes)


def _single_version(query: Mapping[str, str]) -> int:
    """The version for a get or a watch: faults are 500s where a list answers 400."""
    try:
        return _version(query)
    except ApiFailure as failure:
        raise bare_server_error(failure.message) from failure
