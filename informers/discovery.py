"""Finds the resource that serves a kind, by asking the server once."""

import re

import anyio
import msgspec

from informers.api_errors import NotFound, error_from_response, parsed
from informers.resource import APIResource
from informers.transport import HttpRequest, Transport

ABSENT_SECONDS = 5.0
"""How long (s) the server's answer that it has no such kind is believed; a definition may be on its way."""


class _ServedKind(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool


class _ServedKinds(msgspec.Struct):
    resources: list[_ServedKind] | None = None


_body = msgspec.json.Decoder(_ServedKinds)

_API_VERSION = re.compile(r"([a-z0-9][-a-z0-9.]{0,252}/)?[a-z0-9][-a-z0-9]{0,62}")


class UnknownKind(LookupError):
    """The server serves no such kind."""


class Discovery:
    """Maps the apiVersion and kind of a manifest to a resource.

    A found resource is remembered for good, its absence for `ABSENT_SECONDS`. Concurrent callers share one
    request per group.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._known: dict[tuple[str, str], APIResource] = {}
        self._read_at: dict[str, float] = {}
        self._locks: dict[str, anyio.Lock] = {}

    async def resource(self, api_version: str, kind: str) -> APIResource:
        """The resource of a kind. Raises UnknownKind, or the error of the request."""
        # The author of an object may choose it, and it becomes part of a path.
        if (api_version, kind) not in self._known and _API_VERSION.fullmatch(api_version):
            async with self._locks.setdefault(api_version, anyio.Lock()):
                if (api_version, kind) not in self._known and self._may_have_come(api_version):
                    await self._read(api_version)
        try:
            return self._known[api_version, kind]
        except KeyError:
            raise UnknownKind(
                f"{self._transport.server} serves no kind {kind} in {api_version}: "
                f"install its CustomResourceDefinition, or mend apiVersion and kind"
            ) from None

    def forget(self, resource: APIResource) -> None:
        """Ask again next time, since the server answered that it does not serve this resource."""
        self._known.pop((resource.api_version, resource.kind), None)
        self._read_at.pop(resource.api_version, None)

    def _may_have_come(self, api_version: str) -> bool:
        read = self._read_at.get(api_version)
        return read is None or anyio.current_time() - read >= ABSENT_SECONDS

    async def _read(self, api_version: str) -> None:
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{api_version}" if group else f"/api/{api_version}"
        response = await self._transport.request(HttpRequest("GET", path, {}, {"accept": "application/json"}))
        if response.status >= 400:
            error = error_from_response(response.status, response.headers, response.body, f"GET {path}")
            if not isinstance(error, NotFound):
                raise error
        else:
            self._note(group, version, response.body, f"GET {path}")
        self._read_at[api_version] = anyio.current_time()

    def _note(self, group: str, version: str, body: bytes, request: str) -> None:
        api_version = f"{group}/{version}" if group else version
        for entry in parsed(_resources, body, request):
            if "/" not in entry.name:
                found = APIResource(group, version, entry.kind, entry.name, entry.namespaced)
                self._known[api_version, entry.kind] = found


def _resources(body: bytes) -> list[_ServedKind]:
    return _body.decode(body).resources or []
