"""Reads a cluster, and changes nothing: few requests, in pages, within a time, of Secrets only metadata."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, TypeVar

import anyio
import msgspec

from informers import (
    ApiError,
    Expired,
    Forbidden,
    HttpRequest,
    NotFound,
    Response,
    Transport,
    Unauthorized,
    error_from_response,
)
from informers.api_errors import is_unreachable, parsed
from reconcile.doctor.findings import Unread
from reconcile.doctor.objects import Head

SECONDS: Final = 20.0
"""How long one fact may take; the others are read all the same."""
PAGE: Final = 500
PAGES: Final = 40
"""20,000 objects of a kind are looked at: enough to find what is stuck, and bounded on any cluster."""

_T = TypeVar("_T")
_H = TypeVar("_H", bound=Head)
_ACCEPT_HEADS: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


class _ListMetadata(msgspec.Struct):
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)
    items: list[msgspec.Raw] | None = None


_decode_page = msgspec.json.Decoder(_Page).decode


class TooMany(Exception):
    """A list goes on after the last page that is read."""


class Reader:
    """Reads through `transport`, with GET alone."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def answer(self, path: str, query: Mapping[str, str] | None = None, accept: str = "") -> Response:
        """Raises ApiError."""
        headers = {"accept": accept or "application/json"}
        response = await self._transport.request(HttpRequest("GET", path, query or {}, headers))
        if response.status >= 400:
            raise error_from_response(response.status, response.headers, response.body, f"GET {path}")
        return response

    async def get(self, path: str, kind: type[_T]) -> _T | None:
        """The object; None if there is none. Raises ApiError."""
        try:
            response = await self.answer(path)
        except NotFound:
            return None
        return parsed(msgspec.json.Decoder(kind).decode, response.body, f"GET {path}")

    async def list(self, path: str, kind: type[_H], labels: str = "") -> Sequence[_H]:
        """All objects of a collection; none if it is not served. Raises ApiError, TooMany."""
        return await self._pages(path, kind, "application/json", labels)

    async def heads(self, path: str) -> Sequence[Head]:
        """The metadata of all objects of a collection; none if it is not served. Raises ApiError, TooMany."""
        return await self._pages(path, Head, _ACCEPT_HEADS, "")

    async def _pages(self, path: str, kind: type[_H], accept: str, labels: str) -> Sequence[_H]:
        decode = msgspec.json.Decoder(kind).decode
        query = {"limit": str(PAGE), **({"labelSelector": labels} if labels else {})}
        found: list[_H] = []
        for _ in range(PAGES):
            try:
                response = await self.answer(path, query, accept)
            except NotFound:
                return []
            page = parsed(_decode_page, response.body, f"GET {path}")
            found += [parsed(decode, bytes(item), f"GET {path}") for item in page.items or ()]
            token = page.metadata.continue_
            if not token:
                return found
            query = {**query, "continue": token}
        raise TooMany


async def attempted(what: str, reading: Awaitable[_T]) -> _T | Unread:
    """What `reading` reads, or why it cannot be read, for a check to say."""
    try:
        with anyio.fail_after(SECONDS):
            return await reading
    except (Forbidden, Unauthorized):
        return Unread(what, "your rights do not allow it", "run it with the rights to get and list it")
    except TooMany:
        return Unread(what, f"there are more than {PAGE * PAGES:,}", "look at them with kubectl")
    except Expired:
        return Unread(what, "the list changed faster than it was read", "run the command again")
    except TimeoutError:
        return Unread(what, f"no answer within {SECONDS:g} s", "run the command again", unreachable=True)
    except ApiError as error:
        return Unread(what, str(error), "run the command again", is_unreachable(error))
