"""Which resource serves a kind, asked of the server and remembered."""

from typing import Any

import msgspec

from informers.errors import NotFound, error_from_response
from informers.resource import Resource
from informers.transport import Transport


class UnknownKind(LookupError):
    """The server serves no such kind."""


class Discovery:
    """Maps the apiVersion and kind of a manifest to a resource. Only what was found is remembered."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._known: dict[tuple[str, str], Resource] = {}

    async def resource(self, api_version: str, kind: str) -> Resource:
        """The resource of a kind. Raises UnknownKind, or the error of the request."""
        if (api_version, kind) not in self._known:
            await self._read(api_version)
        try:
            return self._known[api_version, kind]
        except KeyError:
            raise UnknownKind(
                f"{self._transport.server} serves no kind {kind} in {api_version}: "
                f"install its CustomResourceDefinition, or mend apiVersion and kind"
            ) from None

    async def _read(self, api_version: str) -> None:
        group, slash, version = api_version.partition("/")
        if not slash:
            group, version = "", api_version
        path = f"/apis/{api_version}" if group else f"/api/{api_version}"
        response = await self._transport.request("GET", path, {}, {"accept": "application/json"})
        if response.status >= 400:
            error = error_from_response(response.status, response.headers, response.body, f"GET {path}")
            if isinstance(error, NotFound):
                return
            raise error
        body: dict[str, Any] = msgspec.json.decode(response.body)
        for entry in body.get("resources") or ():
            if "/" in entry["name"]:
                continue
            found = Resource(group, version, entry["kind"], entry["name"], entry["namespaced"])
            self._known[api_version, entry["kind"]] = found
