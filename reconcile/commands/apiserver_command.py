"""`reconcile apiserver`: the embedded API server by itself."""

import json
import logging
import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import anyio
import click
from anyio.abc import TaskGroup
from attrs import frozen

from informers.clock import SystemClock
from reconcile.client.client import Client
from reconcile.commands.embedded_cluster import FIELD_MANAGER, cannot_listen
from reconcile.commands.error_groups import without_groups
from reconcile.commands.problems import Problem
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.embedded.http import ServerHandle, serve
from reconcile.embedded.listener.admin_kubeconfig import (
    KubeconfigRefused,
    check_kubeconfig_target,
    write_kubeconfig,
)
from reconcile.manager.manager import Manager
from reconcile.manager.signals import on_signal
from reconcile.ops.log_setup import configure_logging
from reconcile.simulation import SimulatedNodes, SimulatedWorkloads

_TOKEN_LENGTH = 512
_NODES = 1000


@frozen
class ApiServerOptions:
    """The options of the command line."""

    port: int
    token: str | None
    kubeconfig: Path | None
    tls: bool
    nodes: int
    workloads: bool
    rbac: bool
    as_json: bool


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="P",
    help="Port on 127.0.0.1. Default: a free one.",
)
@click.option("--token", metavar="T", help="Bearer token of the administrator. Default: a random one.")
@click.option(
    "--token-file", type=click.Path(path_type=Path), metavar="FILE", help="File that holds the token."
)
@click.option(
    "--kubeconfig-out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to write the kubeconfig. Default: a temporary file, removed at the end.",
)
@click.option(
    "--nodes",
    type=click.IntRange(0, _NODES),
    default=0,
    metavar="N",
    help="Simulated nodes, on which pods become Running and Ready. Default: none.",
)
@click.option(
    "--workloads",
    is_flag=True,
    help="Make pods for Deployments, StatefulSets and Jobs; they run on the --nodes.",
)
@click.option(
    "--rbac/--no-rbac",
    default=True,
    help="Whether users other than the administrator need roles. Default: they do.",
)
@click.option("--insecure-http", is_flag=True, help="Plain HTTP, without a token unless one is given.")
@click.option("--json", "as_json", is_flag=True, help="Print its address as one line of JSON once it is up.")
def apiserver(
    port: int,
    token: str | None,
    token_file: Path | None,
    kubeconfig_out: Path | None,
    nodes: int,
    workloads: bool,
    rbac: bool,
    insecure_http: bool,
    as_json: bool,
) -> None:
    """Run the embedded API server by itself, until Ctrl-C.

    It serves this machine only and keeps everything in memory. kubectl and other clients reach it
    with a kubeconfig of its own; yours is neither read nor written.
    """
    if token is not None and token_file is not None:
        raise Problem("--token and --token-file were both given", "use one of them")
    if workloads and not nodes:
        raise Problem("--workloads makes pods, and there is no node to run them", "add --nodes 3")
    if token_file is not None:
        token = _read_token(token_file)
    if token is not None:
        _check_token(token, "--token")
    if token is None and not insecure_http:
        token = SystemClock().uuid().hex
    configure_logging()
    logging.getLogger("reconcile").setLevel(logging.WARNING)  # the simulated nodes log each pod
    tls = not insecure_http
    options = ApiServerOptions(port, token, kubeconfig_out, tls, nodes, workloads, rbac, as_json)
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
        raise Problem(f"{source} is empty")
    if len(token) > _TOKEN_LENGTH or not (token.isascii() and token.isprintable()) or " " in token:
        raise Problem(
            f"{source} is not a token", f"use one word of at most {_TOKEN_LENGTH} printable ASCII characters"
        )


@contextmanager
def _kubeconfig_path(asked: Path | None) -> Iterator[Path]:
    """The path of the kubeconfig: --kubeconfig-out, or a temporary file removed with the server."""
    if asked is not None:
        try:
            check_kubeconfig_target(asked)
        except KubeconfigRefused as refused:
            raise Problem(str(refused), "choose another --kubeconfig-out") from None
        yield asked.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="reconcile-") as folder:
        yield Path(folder) / "kubeconfig"


async def _serve_until_stopped(options: ApiServerOptions, kubeconfig: Path) -> None:
    server = ApiServer(rbac=options.rbac)
    with anyio.CancelScope() as scope, on_signal(scope.cancel), without_groups():
        async with AsyncExitStack() as stack:
            try:
                face = await stack.enter_async_context(
                    serve(server, port=options.port, tls=options.tls, token=options.token)
                )
            except OSError as error:
                raise cannot_listen(options.port, error) from None
            _write(kubeconfig, face)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            tasks.start_soon(server.run)
            if options.nodes:
                await _start_nodes(tasks, server, options)
            _greet(face, kubeconfig, options.as_json)
            await anyio.sleep_forever()
    if not options.as_json:
        click.echo("\nstopped")


async def _start_nodes(tasks: TaskGroup, server: ApiServer, options: ApiServerOptions) -> None:
    nodes = SimulatedNodes(options.nodes)
    await nodes.register(Client(InProcessTransport(server), field_manager=FIELD_MANAGER))
    workloads = SimulatedWorkloads().controllers if options.workloads else ()
    manager = Manager(nodes.controller, *workloads, transport=InProcessTransport(server))
    await tasks.start(manager.run)


def _write(path: Path, face: ServerHandle) -> None:
    try:
        write_kubeconfig(path, face.url, face.ca_pem, face.token)
    except KubeconfigRefused as refused:
        raise Problem(str(refused), "choose another --kubeconfig-out") from None
    except OSError as error:
        raise Problem(f"cannot write the kubeconfig {path}", error.strerror or str(error)) from None


def _greet(face: ServerHandle, kubeconfig: Path, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"url": face.url, "kubeconfig": str(kubeconfig), "process": os.getpid()}))
        return
    click.echo(f"API server on {face.url}")
    click.echo(f"export KUBECONFIG={shlex.quote(str(kubeconfig))}")
    if face.ca_pem is None and face.token is not None:
        click.echo("kubectl sends no token over plain HTTP: leave out --token, or use another client")
    click.echo("Ctrl-C stops it; its objects are then lost.")
