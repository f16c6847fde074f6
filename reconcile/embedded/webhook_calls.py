"""The HTTP call of a webhook, as kube-apiserver makes it for admission and for conversion.

Each call has a connection of its own, so that none outlives the event loop it was made in. The texts of
failures are those of the clients of a real server (client-go's rest package and Go's net/http).
"""

import asyncio
import base64
import binascii
import errno
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import anyio
from attrs import define, field

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.abc import AbstractResolver

USER_AGENT: Final = "kube-apiserver-admission"
# A review holds at most two objects of 3 MiB and a patch; a real server has no limit of its own.
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
_MAX_REDIRECTS: Final = 10  # net/http
_MAX_TOLD: Final = 2048  # maxUnstructuredResponseTextBytes in client-go
_OK: Final = range(200, 207)  # rest.Request takes these for success
_HTTPS: Final = 443

Resolve = Callable[[str, str, int], tuple[str, int]]
"""The address and port of an endpoint of a service, by its namespace, name and port.

Raises LookupError, whose text becomes that of the failure.
"""

InProcessWebhook = Callable[[str, bytes], Awaitable[tuple[int, bytes]]]
"""Answers the call of a webhook without a socket: from the path of its URL and the review's bytes to an HTTP
status and the bytes of the answer."""

Endpoint = tuple[str, int] | InProcessWebhook
"""Where the webhooks of a host are: at an address and port, or a function."""

# NewGenericServerResponse of apimachinery, for a POST that names no object.
_STATUS_TEXTS: Final[Mapping[int, str]] = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the "
    "request",
}
_ECHOING: Final = frozenset({403, 406, 415})  # their message is that of the answer
# X509_V_ERR_* of OpenSSL in the words of Go's crypto/x509.
_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21})
_OUT_OF_TIME: Final = frozenset({9, 10})


class CallFailed(Exception):
    """A webhook could not be called, or gave no answer that can be read; the text is a real server's."""


class ClientUnusable(CallFailed):
    """No call was made, since its `clientConfig` has certificates that cannot be read."""


def no_services(namespace: str, name: str, port: int) -> tuple[str, int]:
    raise LookupError(f'service "{name}" not found')


@define
class WebhookCalls:
    """Calls webhooks; `resolve` finds the endpoints of those that name a service."""

    resolve: Resolve = no_services
    endpoints: MutableMapping[str, Endpoint] = field(factory=dict)
    """By the host of a URL, with its port or without: these are asked before a name is resolved. The host of
    a service is `NAME.NAMESPACE.svc`."""

    async def post(self, client: Mapping[str, Any], body: bytes, seconds: float) -> bytes:
        """The answer to `body`, posted to the webhook of a `clientConfig` within `seconds`.

        It is not empty, and may be anything else. Raises CallFailed.
        """
        url = f"{_address(client)}?timeout={seconds:g}s"
        endpoint = self._endpoint(url)
        if endpoint is None or isinstance(endpoint, tuple):
            return await self._post(url, client, endpoint, body, seconds)
        return await _answered(url, endpoint, body, seconds)

    async def _post(
        self, url: str, client: Mapping[str, Any], at: tuple[str, int] | None, body: bytes, seconds: float
    ) -> bytes:
        import aiohttp

        await asyncio.sleep(0)  # where a request cannot wait it ends here, with nothing to close
        tls = _tls(client.get("caBundle") or "")
        try:
            resolver = self._resolver(client) if at is None else _resolver_to(*at)
            connector = aiohttp.TCPConnector(ssl=tls, resolver=resolver)
            async with (
                aiohttp.ClientSession(
                    connector=connector,
                    cookie_jar=aiohttp.DummyCookieJar(),
                    timeout=aiohttp.ClientTimeout(total=seconds),
                    trust_env=False,
                ) as session,
                session.post(url, data=body, headers=_HEADERS, max_redirects=_MAX_REDIRECTS) as answer,
            ):
                return _judged(answer.status, answer.headers.get("content-type", ""), await _read(answer))
        except (aiohttp.ClientError, OSError, LookupError, ValueError) as error:
            raise CallFailed(f'Post "{url}": {_described(error, client)}') from error

    def _endpoint(self, url: str) -> Endpoint | None:
        if not self.endpoints:
            return None
        parts = urlsplit(url)
        return self.endpoints.get(f"{parts.hostname}:{parts.port or _HTTPS}") or self.endpoints.get(
            parts.hostname or ""
        )

    def _resolver(self, client: Mapping[str, Any]) -> "AbstractResolver | None":
        service = client.get("service")
        if service is None:
            return None
        port = service.get("port") or _HTTPS
        return _resolver_to(*self.resolve(service["namespace"], service["name"], port))


async def _answered(url: str, webhook: InProcessWebhook, body: bytes, seconds: float) -> bytes:
    """The answer of a webhook in this process. One that raises is one that answers with 500."""
    status, answer = 500, b""
    try:
        with anyio.fail_after(seconds) if _can_wait() else nullcontext():
            status, answer = await webhook(urlsplit(url).path or "/", body)
    except TimeoutError:
        raise CallFailed(f'Post "{url}": context deadline exceeded') from None
    except ConnectionError as error:
        raise CallFailed(f'Post "{url}": {error}') from error
    except Exception as error:
        raise CallFailed(f'Post "{url}": {type(error).__name__}: {error}') from error
    return _judged(status, "application/json", answer)


def _can_wait() -> bool:
    """Whether a task runs: `ApiServer.handle` may be called outside of any."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


_HEADERS: Final = {
    "Accept": "application/json, */*",
    "Accept-Encoding": "gzip",
    "Content-Type": "application/json",
    "User-Agent": USER_AGENT,
}


def _address(client: Mapping[str, Any]) -> str:
    """The URL; a service has the name that its certificate must have."""
    service = client.get("service")
    if service is None:
        return str(client.get("url") or "")
    path = (service.get("path") or "").lstrip("/")
    host = f"{service['name']}.{service['namespace']}.svc"
    return f"https://{host}:{service.get('port') or _HTTPS}/{path}"


def _resolver_to(address: str, port: int) -> "AbstractResolver":
    """Leads every name to one address, so that the certificate is still compared with the name."""
    from aiohttp.abc import AbstractResolver, ResolveResult

    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    class _ToEndpoint(AbstractResolver):
        async def resolve(self, host: str, *_: object, **__: object) -> list[ResolveResult]:
            return [ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)]

        async def close(self) -> None: ...

    return _ToEndpoint()


# --- TLS --------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _tls(bundle: str) -> ssl.SSLContext:
    """A context that trusts the certificates of a `caBundle` only, or the system's if it is empty."""
    if not bundle:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=base64.b64decode(bundle).decode("ascii"))
        except (ssl.SSLError, binascii.Error, ValueError):
            why = "unable to load root certificates: unable to parse bytes as PEM block"
            raise ClientUnusable(why) from None
    # Go takes any certificate of the bundle for an anchor, is less strict, and reads no common names.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    return context


# --- answers ----------------------------------------------------------------------------------


async def _read(answer: "aiohttp.ClientResponse") -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > MAX_ANSWER_BYTES:
            raise CallFailed(f"the answer of the webhook has more than {MAX_ANSWER_BYTES} bytes")
    return bytes(body)


def _judged(status: int, content_type: str, body: bytes) -> bytes:
    if status not in _OK:
        raise CallFailed(_status_message(body) or _status_text(status, content_type, body))
    if not body:
        raise CallFailed(f"0-length response with status code: {status} and content type: {content_type}")
    return body


def _status_message(body: bytes) -> str:
    """The message of a Status, which an answer with an error may be."""
    try:
        status = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(status, dict) or (status.get("kind"), status.get("apiVersion")) != ("Status", "v1"):
        return ""
    message = status.get("message")
    return message if isinstance(message, str) and status.get("status") != "Success" else ""


def _status_text(status: int, content_type: str, body: bytes) -> str:
    text = "unknown"
    if content_type.partition(";")[0].strip().startswith("text/"):
        text = body[:_MAX_TOLD].decode(errors="replace").strip()
    if status in _STATUS_TEXTS:
        return _STATUS_TEXTS[status]
    if status in _ECHOING:
        return text
    if status >= 500:
        return f"an error on the server ({json.dumps(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"


def _described(error: Exception, client: Mapping[str, Any]) -> str:
    import aiohttp

    match error:
        case TimeoutError():
            return "context deadline exceeded"
        case aiohttp.ClientConnectorCertificateError():
            return f"tls: failed to verify certificate: x509: {_verification(error.certificate_error)}"
        case aiohttp.ClientConnectorDNSError():
            return f"dial tcp: lookup {error.host}: no such host"
        case aiohttp.ClientConnectorSSLError():
            return f"tls: {error.os_error.strerror or error.os_error}"
        case aiohttp.ClientConnectorError():
            code = errno.errorcode.get(error.os_error.errno or 0, "")
            why = "connection refused" if code == "ECONNREFUSED" else str(error.os_error.strerror)
            return f"dial tcp {error.host}:{error.port}: connect: {why.lower()}"
        case aiohttp.TooManyRedirects():
            return f"stopped after {_MAX_REDIRECTS} redirects"
        case aiohttp.ServerDisconnectedError():
            return "EOF"
        case LookupError() if client.get("service") is not None:
            return str(error.args[0]) if error.args else "no endpoints available"
        case _:
            return str(error) or type(error).__name__


def _verification(error: Exception) -> str:
    code, message = getattr(error, "verify_code", 0), getattr(error, "verify_message", "")
    if code in _UNKNOWN_AUTHORITY:
        return "certificate signed by unknown authority"
    if code in _OUT_OF_TIME:
        return f"certificate has expired or is not yet valid: {message}"
    return message or str(error)
