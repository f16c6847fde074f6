"""A run in shadow: what would be written is logged, nothing is sent, and the answer is made up."""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from informers import Clock, Response, Transport, get_logger
from informers.apimachinery.json_pointers import pointer_steps
from informers.apimachinery.server_fields import SET_BY_SERVER
from informers.transport import PassingTransport
from reconcile.client.diff import merged
from reconcile.client.redaction import redact_event
from reconcile.models.codec import format_time
from reconcile.storms.changes import differing

REMEMBERED = 10_000
REVIEWS = ("/authentication.k8s.io/", "/authorization.k8s.io/")
_NOTHING: Mapping[str, str] = {}

_log = get_logger("reconcile.shadow", redact_event)


class ShadowTransport(PassingTransport):
    """Reads go through; every write is logged with what it would change, once, and answered here.

    The answer is what the server would store as far as that can be told without it: it neither checks nor
    fills in defaults, and an apply is taken for a merge. Of Secrets no value is logged.
    """

    def __init__(self, inner: Transport, clock: Clock) -> None:
        super().__init__(inner)
        self._clock = clock
        self._said: OrderedDict[bytes, None] = OrderedDict()

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = _NOTHING,
        headers: Mapping[str, str] = _NOTHING,
        body: bytes | None = None,
    ) -> Response:
        """Pass on what only reads; log and answer what writes."""
        if method in ("GET", "HEAD") or any(review in path for review in REVIEWS):
            return await super().request(method, path, query, headers, body)
        sent = msgspec.json.decode(body) if body else None
        if method == "POST":
            made = self._made(path, sent)
            self._tell(method, path, sent, {}, sent)
            return _answer(201, made)
        answer = await super().request("GET", path, {}, {"accept": "application/json"})
        if answer.status != 200 and not (answer.status == 404 and _applies(headers)):
            return answer
        before = msgspec.json.decode(answer.body) if answer.status == 200 else {}
        if method == "DELETE":
            self._tell(method, path, None, _authored(before), {})
            return _answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})
        after: dict[str, Any] = _patched(before, sent, headers) if method == "PATCH" else sent or {}
        self._tell(method, path, sent, _authored(before), _authored(after))
        kept = {
            name: value for name, value in (before.get("metadata") or {}).items() if name in SET_BY_SERVER
        }
        written = {**after, "metadata": {**(after.get("metadata") or {}), **kept}}
        return _answer(200, written if before else self._made(path, written))

    def _made(self, path: str, manifest: Any) -> dict[str, Any]:
        """What a server would add to a new object: an identity that no real one has."""
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

    def _tell(self, method: str, path: str, sent: Any, before: Any, after: Any) -> None:
        """One line for each write; for one that was told of already, none."""
        encoded = msgspec.json.encode([method, path, sent], order="deterministic")
        mark = hashlib.blake2b(encoded, digest_size=16).digest()
        if mark in self._said:
            self._said.move_to_end(mark)
            return
        self._said[mark] = None
        if len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
        _log.info("would write", method=method, path=path, changes=_changes(path, before, after))


def _changes(path: str, before: Any, after: Any) -> list[str]:
    """`spec.replicas: 3 -> 2`, for each place; of Secrets the place alone."""
    hidden = "/secrets" in path
    found = differing(before, after)
    return [place if hidden else f"{place}: {_shown(old)} -> {_shown(new)}" for place, old, new in found]


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
    wanted: dict[str, Any] = merged(before, patch)
    return wanted


def _operated(here: Any, path: Sequence[str], operation: Mapping[str, Any]) -> Any:
    """One operation of a JSON patch, as far as they are of use here: what tests changes nothing."""
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


__all__ = ["ShadowTransport"]
