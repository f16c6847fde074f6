"""`reconcile apiserver`: the embedded API server by itself."""

import json
import logging
import os
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import anyio
import click

from informers import StatusError
from reconcile.commands.embedded_cluster import (
    EmbeddedCluster,
    embedded_cluster,
    opened_data,
    writing_kubeconfig,
)
from reconcile.commands.problems import Problem
from reconcile.embedded.durable.data_folder import DataFolder
from reconcile.embedded.listener.admin_kubeconfig import check_kubeconfig_target
from reconcile.manager.signals import in_loop, on_signal
from reconcile.ops.log_setup import configure_logging
from reconcile.testing.definition_files import DefinitionInFile, read_definitions

_TOKEN_LENGTH = 512
_NODES = 1000


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
    help="Where to write the kubeconfig. Default: in the folder of --data, or a temporary file.",
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
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder that keeps everything for the next start, made if needed. Default: nothing is kept.",
)
@click.option(
    "--repair", is_flag=True, help="Cut a damaged log of --data before the damage, and say what is dropped."
)
@click.option(
    "--crds",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="PATH",
    help="File or folder of CustomResourceDefinitions to install before it is ready. May be repeated.",
)
@click.option(
    "--until-eof", is_flag=True, help="Stop when standard input ends, as it does with the parent process."
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
    data: Path | None,
    repair: bool,
    crds: tuple[Path, ...],
    until_eof: bool,
    insecure_http: bool,
    as_json: bool,
) -> None:
    """Run the embedded API server by itself, until Ctrl-C.

    It serves this machine only, and keeps everything in memory unless --data names a folder.
    kubectl and other clients reach it with a kubeconfig of its own; yours is neither read nor
    written.
    """
    if token is not None and token_file is not None:
        raise Problem("--token and --token-file were both given", "use one of them")
    if workloads and not nodes:
        raise Problem("--workloads makes pods, and there is no node to run them", "add --nodes 3")
    if repair and data is None:
        raise Problem("--repair mends the log of a data folder, and none is named", "add --data DIR")
    if token_file is not None:
        token = _read_token(token_file)
    if token is not None:
        _check_token(token, "--token" if token_file is None else f"the token file {token_file}")
    definitions = _read_definitions(crds)
    configure_logging()
    logging.getLogger("reconcile").setLevel(logging.WARNING)  # the simulated nodes log each pod

    async def serve_until_stopped(kubeconfig: Path, folder: DataFolder | None) -> None:
        with anyio.CancelScope() as scope, on_signal(scope.cancel):
            if until_eof:
                _when_input_ends(scope.cancel)
            async with embedded_cluster(
                kubeconfig,
                port=port,
                nodes=nodes,
                workloads=workloads,
                tls=not insecure_http,
                token=token,
                rbac=rbac,
                data=folder,
            ) as cluster:
                await _install(cluster, definitions)
                _greet(cluster, as_json, data, token_unused=insecure_http and token is not None)
                await anyio.sleep_forever()

    with opened_data(data, repair=repair) as folder, _kubeconfig_path(kubeconfig_out, data) as path:
        anyio.run(serve_until_stopped, path, folder)
    if not as_json:
        click.echo("\nstopped")


def _read_definitions(paths: Sequence[Path]) -> list[DefinitionInFile]:
    try:
        return read_definitions(paths)
    except ValueError as error:
        raise Problem(str(error)) from None


async def _install(cluster: EmbeddedCluster, definitions: Sequence[DefinitionInFile]) -> None:
    for one in definitions:
        try:
            await cluster.client.apply(one.content)
        except (StatusError, ValueError) as error:
            words = error.message if isinstance(error, StatusError) else str(error)
            raise Problem(f"{one.file}: the definition {one.name} is refused", words) from None


def _when_input_ends(act: Callable[[], object]) -> None:
    """Call `act` in this loop once standard input has ended: its writer, who stops the server, is gone."""
    soon = in_loop()

    def read() -> None:
        with suppress(OSError):  # closed
            while os.read(0, 65536):
                pass
        with suppress(RuntimeError):  # the loop has ended already
            soon(act)

    # A daemon, because no signal would wake a read at the end of the process.
    Thread(target=read, name="standard input", daemon=True).start()


def _read_token(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise Problem(f"cannot read the token file {path}", error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise Problem(f"the token file {path} is not text") from None


def _check_token(token: str, source: str) -> None:
    if not token:
        raise Problem(f"{source} is empty")
    if len(token) > _TOKEN_LENGTH or not (token.isascii() and token.isprintable()) or " " in token:
        raise Problem(
            f"{source} is not a token", f"use one word of at most {_TOKEN_LENGTH} printable ASCII characters"
        )


@contextmanager
def _kubeconfig_path(asked: Path | None, data: Path | None) -> Iterator[Path]:
    if asked is None and data is not None:
        asked = data / "kubeconfig"
    if asked is not None:
        with writing_kubeconfig(asked):
            check_kubeconfig_target(asked)
        yield asked.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="reconcile-") as folder:
        yield Path(folder) / "kubeconfig"


def _greet(cluster: EmbeddedCluster, as_json: bool, data: Path | None, *, token_unused: bool) -> None:
    url, kubeconfig = cluster.url, str(cluster.kubeconfig)
    if as_json:
        click.echo(json.dumps({"url": url, "kubeconfig": kubeconfig, "process": os.getpid()}))
        return
    click.echo(f"API server on {url}")
    click.echo(f"export KUBECONFIG={shlex.quote(kubeconfig)}")
    if token_unused:
        click.echo("kubectl sends no token over plain HTTP: leave out --token, or use another client")
    end = "its objects are then lost" if data is None else f"its objects stay in {data}"
    click.echo(f"Ctrl-C stops it; {end}.")
