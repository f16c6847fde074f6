"""Reads the debug pages of a running manager."""

import http.client
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click
from attrs import frozen

from reconcile.commands.problems import Problem

DEFAULT = "http://127.0.0.1:8080"
SECONDS = 10.0
MOST: Final = 64 * 1024 * 1024
"""Bytes of a page: no manager has more to say."""
_LONGEST_REFUSAL: Final = 64 * 1024


@frozen
class DebugClient:
    url: str
    token: str = ""
    ca: str | None = None

    def ask(self, page: str, method: str = "GET", **query: str) -> Any:
        """The JSON of a page. Raises Problem."""
        with self.understood():
            return json.loads(self.read(page, method, **query))

    @contextmanager
    def understood(self) -> Iterator[None]:
        """For what reads an answer: raises Problem where that has not the form of a manager's."""
        try:
            yield
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            raise Problem(
                f"{self.url} does not answer like a manager of this version",
                "pass the address of a manager with --manager",
            ) from None

    def read(self, page: str, method: str = "GET", **query: str) -> bytes:
        """A page as it is. Raises Problem."""
        url = f"{self.url.rstrip('/')}{page}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, method=method, headers=self._headers())
        try:
            with urllib.request.build_opener(*self._handlers()).open(request, timeout=SECONDS) as answer:
                body: bytes = answer.read(MOST + 1)
        except urllib.error.HTTPError as error:
            raise _refused(self.url, page, error) from None
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            why = getattr(error, "reason", None) or error
            raise Problem(
                f"no manager answers on {self.url} ({why})",
                "start it with serve= (reconcile run --serve 127.0.0.1:8080), or pass --manager",
            ) from None
        if len(body) > MOST:
            raise Problem(
                f"{self.url} answers with more than {MOST >> 20} MiB",
                "pass the address of a manager with --manager",
            )
        return body

    def _headers(self) -> Mapping[str, str]:
        let_in = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return {"X-Reconcile": "1", **let_in}

    def _handlers(self) -> list[urllib.request.BaseHandler]:
        """Without a proxy: a manager is on this machine or behind a port-forward."""
        context = ssl.create_default_context(cafile=self.ca)
        return [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirects()]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Pages of a manager lead nowhere, and the token is not for another server."""

    def redirect_request(self, *_: object) -> None:
        """Follow none: the answer counts as a refusal."""


def _refused(url: str, page: str, error: urllib.error.HTTPError) -> Problem:
    try:
        text = error.read(_LONGEST_REFUSAL).decode(errors="replace").strip()
    except (http.client.HTTPException, OSError):  # it was cut off
        text = ""
    if error.code in (401, 403) and "this machine" not in text and "header" not in text:
        return Problem(f"{url} does not let you see {page}", "pass a token with --token-file")
    if 300 <= error.code < 400:
        return Problem(f"{url} leads to another address", "pass the one of the manager itself with --manager")
    # An unknown page is answered by aiohttp; an unknown object by the manager, in its own words.
    if error.code == 404 and text.startswith("404"):
        return Problem(f"{url} has no {page}", "its manager is older than this command, or is something else")
    return Problem(text or f"{url} answered {error.code}", "see reconcile top for its controllers and keys")


def manager_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose a manager; the command gets its client as `manager`."""

    @click.option(
        "--manager",
        "url",
        metavar="URL",
        default=DEFAULT,
        help=f"Address of the manager. Default: {DEFAULT}.",
    )
    @click.option(
        "--token-file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="File with a token, for a manager that serves with --serve-review.",
    )
    @click.option(
        "--ca", metavar="FILE", type=click.Path(), help="CA certificate, for a manager that serves over TLS."
    )
    @wraps(command)
    def with_manager(*, url: str, token_file: Path | None, ca: str | None, **others: Any) -> Any:
        return command(manager=_manager(url, token_file, ca), **others)

    return with_manager


def _manager(url: str, token_file: Path | None, ca: str | None) -> DebugClient:
    if "://" not in url:
        url = f"http://{url}"
    if not _is_address(url):
        raise Problem(f"{url} is not the address of a manager", "write http://HOST:PORT or https://HOST:PORT")
    try:
        token = "" if token_file is None else token_file.read_text(errors="replace").strip()
        if ca is not None:
            Path(ca).open("rb").close()
    except OSError as error:
        raise Problem(f"cannot read {error.filename}", error.strerror or str(error)) from None
    if not (token.isascii() and token.isprintable()):
        raise Problem(f"{token_file} does not hold a token", "expected one line of printable ASCII")
    return DebugClient(url, token, ca)


def _is_address(url: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def named(kind: str, name: str) -> Mapping[str, str]:
    """Raises Problem."""
    if not name or name.count("/") > 1 or name.startswith("/") or name.endswith("/"):
        raise Problem(f"{name!r} does not name an object", "write NAMESPACE/NAME, or NAME alone")
    return {"kind": kind, "key": name}
