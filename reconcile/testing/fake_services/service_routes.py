"""The HTTP of a service: which function answers which request, and the routes that each collection has."""

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar
from urllib.parse import unquote

import msgspec
from attrs import frozen

from reconcile.testing.fake_services.service_laws import (
    ServiceAnswer,
    ServiceCollection,
    ServiceRefusal,
)
from reconcile.testing.fake_services.service_resources import (
    Resources,
    ServiceOperation,
    StoredResource,
)

T = TypeVar("T")

MOST_OF_A_BATCH = 1_000
_LIMIT, _TOKEN = "limit", "page_token"


class ServiceView(Protocol):
    """A service, as its routes see it."""

    def resources(self, collection: ServiceCollection[T] | str) -> Resources[T]:
        """The resources of a collection. Raises LookupError for another one."""
        ...

    def items_of_batch(self, count: int) -> int:
        """How many of `count` items of the batch under way are carried out."""
        ...

    def refused(self, refusal: ServiceRefusal) -> ServiceAnswer:
        """The answer to a request that a law or a route refuses."""
        ...


@frozen
class ServiceCall:
    """A request as a route of a service gets it; `params` are the parts of its path in braces."""

    service: ServiceView
    method: str
    path: str
    params: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    content: bytes

    @property
    def body(self) -> dict[str, Any]:
        """The body. Raises ServiceRefusal, a 400, if it is not a JSON object."""
        try:
            body = msgspec.json.decode(self.content)
        except msgspec.DecodeError as error:
            raise ServiceRefusal(400, "malformed", f"the body is not JSON: {error}") from None
        if not isinstance(body, dict):
            raise ServiceRefusal(400, "malformed", "the body is not a JSON object")
        return body


Route: TypeAlias = Callable[[ServiceCall], Any]
"""Answers a call with a ServiceAnswer, or with the JSON of a 200; raises ServiceRefusal for an error."""


@frozen
class RouteTable:
    """Routes by method and path, such as `POST /accounts/{id}/close`; the first that matches answers."""

    routes: tuple[tuple[str, tuple[str, ...], Route], ...]

    @classmethod
    def of(cls, routes: Mapping[str, Route]) -> "RouteTable":
        """Raises ValueError for a name that is not a method and a path."""
        return cls(tuple((*_parsed(name), route) for name, route in routes.items()))

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        """The route of a request and its parameters. Refused with 404, or with 405 for another method."""
        parts, known = tuple(path.strip("/").split("/")), False
        methods = ("HEAD", "GET") if method == "HEAD" else (method,)
        for its_method, pattern, route in self.routes:
            params = _matched(pattern, parts)
            if params is not None and its_method in methods:
                return route, params
            known = known or params is not None
        if known:
            raise ServiceRefusal(405, "method_not_allowed", f"{method} is not allowed on {path}")
        raise ServiceRefusal(404, "not_found", f"nothing is at {path}")


def routes_of_collection(resources: Resources[Any]) -> Iterator[tuple[str, Route]]:
    """The routes that a collection has without being asked."""
    place, routes = f"/{resources.declared.name}", _CollectionRoutes(resources)
    yield f"GET {place}", routes.list
    yield f"POST {place}", routes.create
    yield f"POST {place}:batch", routes.batch
    yield f"GET {place}/{{id}}", routes.get
    yield f"PUT {place}/{{id}}", routes.put
    yield f"PATCH {place}/{{id}}", routes.patch
    yield f"DELETE {place}/{{id}}", routes.delete


@frozen
class _CollectionRoutes:
    resources: Resources[Any]

    def list(self, call: ServiceCall) -> Any:
        fields = {name: value for name, value in call.query.items() if name not in (_LIMIT, _TOKEN)}
        limit = _number(call.query.get(_LIMIT, str(self.resources.declared.page)), _LIMIT)
        found, following = self.resources.page(fields, _position(call.query.get(_TOKEN, "")), limit)
        answer = {"items": [self.resources.body_of(one.value) for one in found]}
        return answer if following is None else {**answer, "next_page_token": _token(following)}

    def get(self, call: ServiceCall) -> ServiceAnswer:
        return self._shown(self.resources.get(call.params["id"]), 200)

    def create(self, call: ServiceCall) -> ServiceAnswer:
        return self._written(self.resources.create(call.body), 201)

    def put(self, call: ServiceCall) -> ServiceAnswer:
        name, body, declared = call.params["id"], call.body, self.resources.declared
        version = _version(call)
        try:
            return self._written(self.resources.replace(name, body, version=version), 200)
        except ServiceRefusal as missing:
            # With If-Match the client means a resource that it has seen: it may not come back by this.
            if missing.status != 404 or not declared.client_names or version is not None:
                raise
        return self._written(self.resources.create({**body, declared.id: name}), 201)

    def patch(self, call: ServiceCall) -> ServiceAnswer:
        fields = call.body
        return self._written(self.resources.update(call.params["id"], fields, version=_version(call)), 200)

    def delete(self, call: ServiceCall) -> ServiceAnswer:
        self.resources.delete(call.params["id"], version=_version(call))
        if self.resources.declared.operations is None:
            return ServiceAnswer(204)
        return _accepted(self.resources.last_operation)

    def batch(self, call: ServiceCall) -> ServiceAnswer:
        """Carry out items one by one: an item that is refused does not stop the others."""
        items = call.body.get("items")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise ServiceRefusal(400, "malformed", "items is not a list of objects")
        if len(items) > MOST_OF_A_BATCH:
            raise ServiceRefusal(413, "too_large", f"a batch has at most {MOST_OF_A_BATCH} items")
        carried_out = call.service.items_of_batch(len(items))
        results = [self._item(call, item, number < carried_out) for number, item in enumerate(items)]
        whole = all(result["status"] < 400 for result in results)
        return ServiceAnswer(200 if whole else 207, {"results": results})

    def _item(self, call: ServiceCall, item: Mapping[str, Any], carried_out: bool) -> dict[str, Any]:
        try:
            if not carried_out:
                raise ServiceRefusal(503, "unavailable", "not carried out (a planned fault)")
            routes = {"POST": self.create, "PUT": self.put, "PATCH": self.patch, "DELETE": self.delete}
            route = routes.get(str(item.get("method", "POST")))
            if route is None:
                raise ServiceRefusal(400, "malformed", f"an item cannot be a {item['method']}")
            content = msgspec.json.encode(item.get("body", {}))
            params = {"id": str(item.get("id", ""))}
            part = ServiceCall(
                call.service, call.method, call.path, params, call.query, call.headers, content
            )
            answer = route(part)
        except ServiceRefusal as refused:
            answer = call.service.refused(refused)
        return {"status": answer.status, "body": answer.body}

    def _shown(self, stored: StoredResource[Any], status: int) -> ServiceAnswer:
        return ServiceAnswer(status, self.resources.body_of(stored.value), {"etag": f'"{stored.version}"'})

    def _written(self, stored: StoredResource[Any], status: int) -> ServiceAnswer:
        if self.resources.declared.operations is None:
            return self._shown(stored, status)
        return _accepted(self.resources.last_operation)


def operation_route(resources: Resources[Any]) -> Route:
    """Answers how an operation of a collection is."""

    def get(call: ServiceCall) -> dict[str, Any]:
        resources.settle()
        operation = resources.operations.get(call.params["id"])
        if operation is None:
            raise ServiceRefusal(404, "not_found", f"there is no operation {call.params['id']}")
        return _operation_body(operation)

    return get


def _accepted(operation: ServiceOperation) -> ServiceAnswer:
    return ServiceAnswer(202, _operation_body(operation), {"location": f"/operations/{operation.id}"})


def _operation_body(operation: ServiceOperation) -> dict[str, Any]:
    body = {"id": operation.id, "done": operation.done, "resource": operation.resource}
    if operation.done and operation.fails:
        return {**body, "error": {"code": "failed", "message": f"the {operation.verb} failed"}}
    return body


def _parsed(name: str) -> tuple[str, tuple[str, ...]]:
    method, _, path = name.partition(" ")
    if not method.isupper() or not path.startswith("/"):
        raise ValueError(f"expected a route such as 'POST /accounts/{{id}}/close', got {name!r}")
    return method, tuple(path.strip("/").split("/"))


def _matched(pattern: tuple[str, ...], parts: tuple[str, ...]) -> Mapping[str, str] | None:
    if len(pattern) != len(parts):
        return None
    params: dict[str, str] = {}
    for expected, part in zip(pattern, parts, strict=True):
        if expected.startswith("{") and expected.endswith("}"):
            params[expected[1:-1]] = unquote(part)
        elif expected != part:
            return None
    return params


def _version(call: ServiceCall) -> int | None:
    given = call.headers.get("if-match", "").strip('"')
    return None if given in ("", "*") else _number(given, "If-Match")


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 12:
        raise ServiceRefusal(400, "malformed", f"{name} is not a number")
    return int(text)


def _token(position: int) -> str:
    return base64.urlsafe_b64encode(f"after:{position}".encode()).decode()


def _position(token: str) -> int:
    if not token:
        return 0
    try:
        before, _, number = base64.b64decode(token, altchars=b"-_", validate=True).decode().partition(":")
    except ValueError:
        before, number = "", ""
    if before != "after":
        raise ServiceRefusal(400, "malformed", f"{_TOKEN} is not from an earlier page")
    return _number(number, _TOKEN)
