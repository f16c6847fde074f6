"""`reconcile apiserver`: the embedded API server, alone."""

import errno
import shlex
import signal
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import anyio
import click
from attrs import frozen

from informers.clock import SystemClock
from reconcile.commands.errors import Problem
from reconcile.embedded import ApiServer
from reconcile.embedded.http import Face, serve
from reconcile.embedded.kubeconfig import KubeconfigRefused, check_kubeconfig_target, write_kubeconfig

_TOKEN_LENGTH = 512


@frozen
class Options:
    """What was asked for on the command line."""

    port: int
    token: str | None
    kubeconfig: Path | None
    tls: bool


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1. Default: a free one."
)
@click.option("--token", help="Bearer token of the administrator. Default: a random one.")
@click.option("--token-file", type=click.Path(path_type=Path), help="File that holds the token.")
@click.option(
    "--kubeconfig-out",
    type=click.Path(path_type=Path),
    help="Where to write the kubeconfig. Default: a temporary file, removed at the end.",
)
@click.option("--insecure-http", is_flag=True, help="Plain HTTP, and no token unless one is given.")
def apiserver(
    port: int, token: str | None, token_file: Path | None, kubeconfig_out: Path | None, insecure_http: bool
) -> None:
    """Run the embedded API server by itself, until Ctrl-C.

    It serves this machine only and keeps everything in memory. A kubeconfig of its own leads
    kubectl and other clients to it; yours is neither read nor written.
    """
    if token is not None and token_file is not None:
        raise Problem("--token and --token-file are both given", "give one of them")
    if token_file is not None:
        token = _read_token(token_file)
    if token is not None:
        _check_token(token, "--token")
    if token is None and not insecure_http:
        token = SystemClock().uuid().hex
    options = Options(port, token, kubeconfig_out, tls=not insecure_http)
    with _kubeconfig_path(options.kubeconfig) as path:
        anyio.run(_serve_until_stopped, options, path)


def _read_token(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except OSError as error:
        raise Problem(f"cannot read the token file {path}", error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise Problem(f"the token file {path} is not text") from None
    _check_token(token, f"the token file {path}")
    return token


def _check_token(token: str, source: str) -> None:
    if not token:
        raise Problem(f"{source} holds no token")
    if len(token) > _TOKEN_LENGTH or not (token.isascii() and token.isprintable()) or " " in token:
        raise Problem(
            f"{source} is no token", f"use one word of at most {_TOKEN_LENGTH} printable ASCII characters"
        )


@contextmanager
def _kubeconfig_path(asked: Path | None) -> Iterator[Path]:
    """Where the kubeconfig goes: the file asked for, or one that goes away with the server."""
    if asked is not None:
        try:
            check_kubeconfig_target(asked)
        except KubeconfigRefused as refused:
            raise Problem(str(refused), "choose another --kubeconfig-out") from None
        yield asked.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="reconcile-") as folder:
        yield Path(folder) / "kubeconfig"


async def _serve_until_stopped(options: Options, kubeconfig: Path) -> None:
    server = ApiServer()
    async with AsyncExitStack() as stack:
        signals = stack.enter_context(anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM))
        try:
            face = await stack.enter_async_context(
                serve(server, port=options.port, tls=options.tls, token=options.token)
            )
        except OSError as error:
            raise _cannot_listen(options.port, error) from None
        _write(kubeconfig, face)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(server.run)
        _greet(face, kubeconfig)
        async for _ in signals:
            tasks.cancel_scope.cancel()
            break
    click.echo("\nstopped")


def _cannot_listen(port: int, error: OSError) -> Problem:
    if error.errno == errno.EADDRINUSE:
        return Problem(
            f"port {port} on 127.0.0.1 is in use", "choose another --port, or leave it out for a free one"
        )
    if error.errno == errno.EACCES:
        return Problem(f"port {port} needs privileges that you do not have", "choose a --port above 1023")
    return Problem(f"cannot listen on port {port} of 127.0.0.1", error.strerror or str(error))


def _write(path: Path, face: Face) -> None:
    try:
        write_kubeconfig(path, face.url, face.ca_pem, face.token)
    except KubeconfigRefused as refused:
        raise Problem(str(refused), "choose another --kubeconfig-out") from None
    except OSError as error:
        raise Problem(f"cannot write the kubeconfig {path}", error.strerror or str(error)) from None


def _greet(face: Face, kubeconfig: Path) -> None:
    click.echo(f"API server on {face.url}")
    click.echo(f"export KUBECONFIG={shlex.quote(str(kubeconfig))}")
    if face.ca_pem is None and face.token is not None:
        click.echo(
            "kubectl sends no token over plain HTTP: this server is for other clients, or leave out --token"
        )
    click.echo("Ctrl-C stops it; what it holds is then gone.")
