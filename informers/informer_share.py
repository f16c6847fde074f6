"""A share of a resource: what of it an informer follows at present, among what its options select."""

from collections.abc import Callable

from attrs import field, frozen

from informers.api_errors import BadRequest, ServerError, error_from_response
from informers.apimachinery.shard_selectors import parse_shard_selector
from informers.informer_options import InformerOptions
from informers.informer_selection import label_requirements
from informers.snapshot import Snapshot
from informers.transport import HttpRequest, Transport

_NO_SELECTOR = "x"


def _label_selector(_: object, __: object, text: str) -> None:
    label_requirements(text)


def _shard_selector(_: object, __: object, text: str) -> None:
    parse_shard_selector(text)


@frozen(kw_only=True)
class Share:
    """What of a resource is followed at present, among what the options of its informer select.

    `labels` and `shard` are further selectors for the server. `keeps` says the same of one object and is
    always asked, since a server without shards (KEP-5866) sends all objects. Raises ValueError for text that
    is not a selector.
    """

    keeps: Callable[[Snapshot], bool]
    labels: str = field(default="", validator=_label_selector)
    shard: str = field(default="", validator=_shard_selector)


def selectors(options: InformerOptions, share: Share | None) -> dict[str, str]:
    """The parameters of a list or watch for a share of what the options select.

    Raises ValueError if both have a shard selector, as no selector stands for what two of them share.
    """
    query = options.query()
    if share is None:
        return query
    if share.shard and options.shard:
        raise ValueError(
            f"a share with shard= cannot be part of {options.shard!r}: remove shard= of the options"
        )
    if share.labels:
        query["labelSelector"] = ",".join(filter(None, (options.labels, share.labels)))
    if share.shard:
        query["shardSelector"] = share.shard
    return query


async def shards_served(transport: Transport, path: str) -> bool:
    """Whether the server filters lists and watches of the resource at `path` by shard (KEP-5866).

    No answer says so, but a server that reads shard selectors refuses a wrong one. Raises ApiError.
    """
    query = {"limit": "1", "shardSelector": _NO_SELECTOR}
    response = await transport.request(HttpRequest("GET", path, query))
    if response.status < 400:
        return False
    error = error_from_response(response.status, response.headers, response.body, f"LIST {path}")
    if isinstance(error, BadRequest | ServerError) and "shard selector" in error.message:
        return True
    raise error
