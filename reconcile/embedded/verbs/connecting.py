"""CONNECT: exec, attach, port-forward and proxy, which admission sees and this server does not serve."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from informers.transport import Response
from reconcile.embedded.admission.attributes import Kind
from reconcile.embedded.api import ApiRequest, RequestTarget
from reconcile.embedded.engine import Engine
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.protocol.request_info import flag
from reconcile.embedded.verbs.admitting import admit_request

Read = Callable[[Mapping[str, str], str], Any]


def _flag(query: Mapping[str, str], name: str) -> Any:
    return flag(query, name)


def _text(query: Mapping[str, str], name: str) -> Any:
    return query.get(name)


def _texts(query: Mapping[str, str], name: str) -> Any:
    return [query[name]] if name in query else None


def _numbers(query: Mapping[str, str], name: str) -> Any:
    return [int(text) for text in query.get(name, "").split(",") if text.isdigit()]


_STREAMS: Final[dict[str, Read]] = {
    "stdin": _flag,
    "stdout": _flag,
    "stderr": _flag,
    "tty": _flag,
    "container": _text,
}
_PROXY: Final[dict[str, Read]] = {"path": _text}
# By plural and subresource: the kind of its options, and how each is read from the query.
CONNECTABLE: Final[dict[tuple[str, str], tuple[str, dict[str, Read]]]] = {
    ("pods", "attach"): ("PodAttachOptions", _STREAMS),
    ("pods", "exec"): ("PodExecOptions", {**_STREAMS, "command": _texts}),
    ("pods", "portforward"): ("PodPortForwardOptions", {"ports": _numbers}),
    ("pods", "proxy"): ("PodProxyOptions", _PROXY),
    ("nodes", "proxy"): ("NodeProxyOptions", _PROXY),
    ("services", "proxy"): ("ServiceProxyOptions", _PROXY),
}


async def connect(engine: Engine, request: ApiRequest, target: RequestTarget) -> Response:
    """Ask admission, and then refuse with 405."""
    subresource, slash, path = target.subresource.partition("/")
    name, fields = CONNECTABLE[target.resource.plural, subresource]
    query = {**request.query, **({"path": slash + path} if slash else {})}
    found = {field: read(query, field) for field, read in fields.items()}
    options = {"kind": name, "apiVersion": "v1", **{field: value for field, value in found.items() if value}}
    await admit_request(engine, request, target, "CONNECT", Kind("", "v1", name), options)
    raise not_served(target)


def not_served(target: RequestTarget) -> ApiFailure:
    """405 for a subresource of a built-in kind that this server does not have."""
    message = f"{target.resource.name}/{target.subresource} is not supported by the embedded server"
    return ApiFailure(405, "MethodNotAllowed", message, {})
