"""Shadow mode: each write is logged and not sent, and its answer is computed here."""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from informers import Clock, Response, Transport, get_logger
from informers.apimachinery.json_pointers import pointer_steps
from informers.apimachinery.server_fields import SET_BY_SERVER
from informers.transport import HttpRequest, PassingTransport
from reconcile.client.diff import merged, value_differences
from reconcile.client.redaction import copies_object, redact_event
from reconcile.models.values import format_time

REMEMBERED = 10_000
"""How many writes are remembered as logged; the oldest beyond them are logged again."""
REVIEWS = ("/authentication.k8s.io/", "/authorization.k8s.io/")

_log = get_logger("reconcile.shadow", redact_event)


class ShadowTransport(PassingTransport):
    """Sends reads; logs every distinct write once, with its changes, and answers it.

    The answer is the object as the server would store it, but nothing is validated or defaulted, and an apply
    counts as a merge. No value of a Secret is logged.
    """

    def __init__(self, inner: Transport, clock: Clock) -> None:
        super().__init__(inner)
        self._clock = clock
        self._logged: OrderedDict[bytes, None] = OrderedDict()

    async def request(self, request: HttpRequest) -> Response:
        path = request.path
        if request.reads or any(review in path for review in REVIEWS):
            return await super().request(request)
        sent = msgspec.json.decode(request.body) if request.body else None
        if request.method == "POST":
            made = self._made(path, sent)
            self._log_once(request, sent, {}, sent)
            return _answer(201, made)
        answer = await super().request(HttpRequest("GET", path, {}, {"accept": "application/json"}))
        if answer.status != 200 and not (answer.status == 404 and _applies(request.headers)):
            return answer
        before = msgspec.json.decode(answer.body) if answer.status == 200 else {}
        if request.method == "DELETE":
            self._log_once(request, None, _authored(before), {})
            return _answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})
        after: dict[str, Any] = (
            _patched(before, sent, request.headers) if request.method == "PATCH" else sent or {}
        )
        self._log_once(request, sent, _authored(before), _authored(after))
        kept = {
            name: value for name, value in (before.get("metadata") or {}).items() if name in SET_BY_SERVER
        }
        written = {**after, "metadata": {**(after.get("metadata") or {}), **kept}}
        return _answer(200, written if before else self._made(path, written))

    def _made(self, path: str, manifest: Any) -> dict[str, Any]:
        """The object with what a server adds to a new one, and a uid that no real object has."""
        metadata = dict((manifest or {}).get("metadata") or {})
        mark = self._clock.uuid().hex
        metadata.setdefault("name", f"{metadata.pop('generateName', '')}{mark[:5]}")
        if "/namespaces/" in path:
            metadata.setdefault("namespace", path.split("/namespaces/")[1].split("/")[0])
        made = {
            "uid": f"shadow-{mark}", "resourceVersion": "1", "generation": 1,
            "creationTimestamp": format_time(self._clock.now()),
        }  # fmt: skip
        return {**(manifest or {}), "metadata": {**metadata, **made}}

    def _log_once(self, request: HttpRequest, sent: Any, before: Any, after: Any) -> None:
        encoded = msgspec.json.encode([request.method, request.path, sent], order="deterministic")
        mark = hashlib.blake2b(encoded, digest_size=16).digest()
        if mark in self._logged:
            self._logged.move_to_end(mark)
            return
        self._logged[mark] = None
        if len(self._logged) > REMEMBERED:
            self._logged.popitem(last=False)
        changes = _changes(request.path, before, after)
        _log.info("would write", method=request.method, path=request.path, changes=changes)


def _changes(path: str, before: Any, after: Any) -> list[str]:
    """`spec.replicas: 3 -> 2` for each changed place; of Secrets and of copies of objects the place alone."""
    hidden = "/secrets" in path
    return [
        place if hidden or copies_object(place) else f"{place}: {_shown(old)} -> {_shown(new)}"
        for place, old, new in value_differences(before, after)
    ]


def _shown(value: Any) -> str:
    return "nothing" if value is None else msgspec.json.encode(value).decode()


def _applies(headers: Mapping[str, str]) -> bool:
    return "apply-patch" in headers.get("content-type", "")


def _authored(manifest: Any) -> dict[str, Any]:
    metadata = {n: v for n, v in (manifest.get("metadata") or {}).items() if n not in SET_BY_SERVER}
    return {**manifest, "metadata": metadata}


def _patched(before: dict[str, Any], patch: Any, headers: Mapping[str, str]) -> dict[str, Any]:
    if "json-patch" in headers.get("content-type", ""):
        after = before
        for operation in patch:
            after = _operated(after, pointer_steps(operation["path"]), operation)
        return after
    after_merge: dict[str, Any] = merged(before, patch)
    return after_merge


def _operated(here: Any, path: Sequence[str], operation: Mapping[str, Any]) -> Any:
    """The value after one operation of a JSON patch; a `test` changes nothing."""
    if operation["op"] == "test" or not isinstance(here, dict) or not path:
        return operation["value"] if not path and "value" in operation else here
    name, rest = path[0], path[1:]
    if rest:
        return {**here, name: _operated(here.get(name, {}), rest, operation)}
    if operation["op"] == "remove":
        return {member: value for member, value in here.items() if member != name}
    return {**here, name: operation["value"]}


def _answer(status: int, body: Any) -> Response:
    return Response(status, {"content-type": "application/json"}, msgspec.json.encode(body))
