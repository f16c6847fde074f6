"""Objects as an operator on kopf leaves them, and a server that makes them as they are read."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from attrs import define, field

from informers import HttpRequest, Response, StreamingResponse

GROUP = "kopf.example.com"
PREFIX = "kopf.zalando.org"
FINALIZER = f"{PREFIX}/KopfFinalizerMarker"
STARTED = "2026-11-23T10:00:00+00:00"
SECRET = "cGFzc3dvcmQ="


def record(purpose: str = "create", **more: Any) -> str:
    """What an annotation of progress has; `message` quotes an error."""
    known = {"started": STARTED, "purpose": purpose, "retries": 2, "message": f"refused {SECRET}"}
    return json.dumps({**known, **more})


def managed(
    name: str,
    *,
    handled: bool = True,
    finalizer: bool = True,
    prefix: str = PREFIX,
    padding: int = 0,
    deleted: bool = False,
    **progress: str,
) -> dict[str, Any]:
    """A gadget; `progress` has records by the names of their handlers."""
    annotations = {f"{prefix}/{handler}": text for handler, text in progress.items()}
    if handled:
        annotations[f"{prefix}/last-handled-configuration"] = json.dumps({"spec": {"color": SECRET}})
    if prefix != PREFIX:
        annotations[f"{prefix}/kopf-managed"] = "yes"
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "annotations": annotations,
        "finalizers": [FINALIZER] if finalizer else [],
        "managedFields": [
            {
                "manager": "kopf",
                "operation": "Update",
                "fieldsV1": {
                    "f:metadata": {"f:annotations": {f"f:{one}": {} for one in annotations}},
                    "f:status": {"f:created": {".": {}, "f:ok": {}}},
                },
            }
        ],
    }
    if deleted:
        metadata["deletionTimestamp"] = "2026-11-23T10:00:00Z"
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Gadget",
        "metadata": metadata,
        "spec": {"size": 1, "color": "x" * padding},
        "status": {"created": {"ok": 1}},
    }


@define
class Pages:
    """A transport on which one collection has `count` objects, made when their page is read."""

    path: str
    make: Callable[[int], dict[str, Any]]
    count: int
    expires_at: int | None = None
    """The page that begins here has expired, once."""
    requests: list[HttpRequest] = field(factory=list)

    server = "pages"

    async def request(self, request: HttpRequest) -> Response:
        self.requests.append(request)
        if request.path != self.path:
            return _status(404, "NotFound")
        begin = int(request.query.get("continue", 0))
        if begin == self.expires_at:
            self.expires_at = None
            return _status(410, "Expired")
        end = min(self.count, begin + int(request.query["limit"]))
        body = b",".join(self._bodies(begin, end))
        after = f'"continue":"{end}"' if end < self.count else ""
        return Response(200, {}, b'{"metadata":{%s},"items":[%s]}' % (after.encode(), body))

    def _bodies(self, begin: int, end: int) -> Iterator[bytes]:
        return (json.dumps(self.make(number)).encode() for number in range(begin, end))

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[StreamingResponse]:
        raise AssertionError(f"an audit watches nothing: {request}")

    async def aclose(self) -> None:
        pass


def _status(code: int, reason: str) -> Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    return Response(code, {}, json.dumps(body).encode())
