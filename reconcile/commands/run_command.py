"""`reconcile run`: runs controllers on a cluster or on an embedded one."""

import asyncio
import os
import shlex
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import click
from attrs import evolve, frozen

from informers import (
    ApiError,
    APIResource,
    CacheSyncFailed,
    HttpRequest,
    Transport,
    error_from_response,
    get_logger,
)
from informers.cluster_connection import ClusterConnection, ConfigurationProblem, find_kubeconfig
from informers.discovery import Discovery, UnknownKind
from informers.kubeconfig import choose_context
from informers.kubernetes import KubernetesTransport, connect
from informers.service_account import find_pod_connection
from reconcile.commands.completions import targets as completed_targets
from reconcile.commands.kubeconfig_options import kubeconfig_options
from reconcile.commands.problems import ManagerEnded, Problem
from reconcile.commands.progress import PATIENCE
from reconcile.commands.targets import load_manager
from reconcile.commands.terminals import is_interactive
from reconcile.controller.kopf_takeover import UnwrittenDraft
from reconcile.manager.lifecycle import in_own_process
from reconcile.manager.manager import Manager
from reconcile.manager.option_list import TEXT_OPTIONS, ConfigurationError, flag_of, from_flags
from reconcile.manager.predecessor_check import PredecessorActive
from reconcile.manager.server_readiness import NOT_READY, until_ready
from reconcile.manager.signals import Stop, handling, in_loop, on_signal
from reconcile.models import kind_of
from reconcile.ops.log_setup import configure_logging
from reconcile.ops.serving_addresses import ServeError
from reconcile.runs.run_failures import described
from reconcile.runs.supervision import without_groups

_BAD_INPUT = (ServeError, ConfigurationError, CacheSyncFailed, PredecessorActive, UnwrittenDraft)
"""Errors that a change of options, or of the cluster, can prevent."""
LATE_SECONDS = 10.0
"""Seconds between two log lines about first lists that have not arrived."""

_log = get_logger("reconcile")


@frozen
class ConnectionOptions:
    kubeconfig: str | None
    context: str | None
    yes: bool


def manager_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add a flag for each option of a manager. The flags have no defaults: those are the manager's own."""
    for name, spec in reversed(TEXT_OPTIONS.items()):
        if name in ("embedded", "namespace"):
            continue  # their flags are written out at `run`
        form: dict[str, Any] = {"flag_value": "true"} if spec.is_switch else {"metavar": "VALUE"}
        command = click.option(flag_of(name), name, help=spec.help, **form)(command)
    return command


@click.command()
@click.argument("targets", metavar="TARGET...", nargs=-1, required=True, shell_complete=completed_targets)
@kubeconfig_options
@click.option("--embedded", is_flag=True, help="Run on an API server in this process, with simulated nodes.")
@click.option("-n", "--namespace", metavar="NAME", help="Keep to one namespace. Default: all of them.")
@click.option("--yes", is_flag=True, help="Do not ask before running on a server that is not this machine.")
@click.option("--verbose", is_flag=True, help="Log debug lines too, tracebacks among them.")
@manager_flags
def run(
    targets: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    embedded: bool,
    namespace: str | None,
    yes: bool,
    verbose: bool,
    **flags: str | None,
) -> None:
    """Run controllers until Ctrl-C.

    TARGET is the name of a bundled controller, a module with a Manager or with Controllers, or
    my_module:manager, where the attribute is a Manager, a Controller or a list of Controllers; the
    current directory is searched first.
    """
    options = ConnectionOptions(kubeconfig, context, yes)
    configure_logging(level="DEBUG" if verbose else "INFO")
    manager = load_manager(targets)
    try:
        manager.configure(from_flags({**flags, "namespace": namespace}))
        if manager.options["clusters"] and not embedded:
            _refuse_cluster_options(options, "a manager that names its clusters")
            for way in manager.options["clusters"].values():
                if isinstance(way, str):
                    choose_connection(evolve(options, context=way), manager)
            anyio.run(_run_alone, manager)
        elif embedded or manager.embedded:
            _refuse_cluster_options(options, "the embedded server")
            anyio.run(_run_embedded, manager)
        elif manager.transport is not None:
            _refuse_cluster_options(options, "a Manager that brings its own transport")
            _announce("of the manager itself", manager.transport.server, manager)
            anyio.run(_run_alone, manager.on(manager.transport))
        else:
            if _opens_its_own(manager):
                _refuse_cluster_options(options, "a manager of several loops, which takes $KUBECONFIG")
            anyio.run(_run_connected, manager, choose_connection(options, manager), options)
    except _BAD_INPUT as error:
        raise Problem(str(error)) from None


def _refuse_cluster_options(options: ConnectionOptions, what: str) -> None:
    if options.kubeconfig is not None or options.context is not None:
        raise Problem(f"--kubeconfig and --context do not apply to {what}", "leave them out")


def choose_connection(options: ConnectionOptions, manager: Manager) -> ClusterConnection:
    """The cluster, announced on the first line and confirmed. Nothing is sent yet. Raises Problem."""
    try:
        connection = _find_connection(options)
    except ConfigurationProblem as problem:
        raise Problem(str(problem), "name another with --kubeconfig, or use --embedded") from None
    _announce(connection.context, connection.server, manager)
    if not connection.loopback and not options.yes:
        _ask()  # before the event loop runs: a question inside it could not be interrupted
    return connection


def _find_connection(options: ConnectionOptions) -> ClusterConnection:
    kubeconfig = find_kubeconfig(options.kubeconfig, options.context, os.environ)
    if kubeconfig == "in-cluster":
        return find_pod_connection()
    return choose_context(kubeconfig, options.context).connection


def _announce(context: str, server: str, manager: Manager) -> None:
    where = f"namespace {', '.join(manager.namespaces)}" if manager.namespaces else "all namespaces"
    click.echo(f"context {context}, server {server}, {where}")


def _ask() -> None:
    if not is_interactive():
        raise Problem("this server is not on this machine", "add --yes if it is the right one")
    if not click.confirm("This server is not on this machine. Run the controllers there?"):
        raise Problem("nothing was started", "choose the cluster with --kubeconfig or --context")


async def _run_connected(manager: Manager, connection: ClusterConnection, options: ConnectionOptions) -> None:
    try:
        transport = await _connect(connection, options)
    except ConfigurationProblem as problem:
        raise Problem(str(problem)) from None
    try:
        with _stoppable() as stop:
            await _check(transport, manager)
            await _run(manager if _opens_its_own(manager) else manager.on(transport), stop)
    finally:
        with anyio.CancelScope(shield=True):
            await transport.aclose()


def _opens_its_own(manager: Manager) -> bool:
    """Whether each event loop of it opens a connection of its own, to the cluster that is the default."""
    return manager.options["loops"] > 1


async def _connect(agreed: ClusterConnection, options: ConnectionOptions) -> KubernetesTransport:
    context = None if agreed.context == "in-cluster" else agreed.context
    transport = await connect(options.kubeconfig, context)
    if transport.connection != agreed:
        await transport.aclose()
        raise Problem("the kubeconfig has changed since it was read", "try again")
    return transport


async def _check(transport: Transport, manager: Manager) -> None:
    """Wait, before anything starts, until the API server accepts us and serves every kind. Raises Problem."""

    async def look() -> None:
        await _check_server(transport)
        await _check_kinds(transport, manager)

    try:
        await until_ready(look, manager.options["sync_seconds"], (*NOT_READY, _NoDefinition))
    except _NoDefinition as missing:
        name, version = missing.resource.name, missing.resource.api_version
        hint = "install its CustomResourceDefinition"
        raise Problem(f"the server has no {name} ({version})", hint) from None
    except ApiError as error:
        raise Problem(str(error)) from None


async def _check_server(transport: Transport) -> None:
    answer = await transport.request(HttpRequest("GET", "/version"))
    if answer.status == 401:
        raise Problem(f"{transport.server} does not accept these credentials", "log in again")
    if answer.status == 429 or answer.status >= 500:
        raise error_from_response(answer.status, answer.headers, answer.body, "GET /version")


class _NoDefinition(Exception):
    def __init__(self, resource: APIResource) -> None:
        super().__init__(f"{resource.name} ({resource.api_version}) is not served: is it installed?")
        self.resource = resource


async def _check_kinds(transport: Transport, manager: Manager) -> None:
    discovery = Discovery(transport)
    for kind in dict.fromkeys(kind for controller in manager.controllers for kind in controller.kinds):
        resource = kind_of(kind).resource
        try:
            await discovery.resource(resource.api_version, resource.kind)
        except UnknownKind:
            raise _NoDefinition(resource) from None


async def _run_alone(manager: Manager) -> None:
    with _stoppable() as stop:
        await _run(manager, stop)


async def _run_embedded(manager: Manager) -> None:
    try:  # an image with the extra `cli` alone has none of the embedded server's libraries
        from reconcile.commands.embedded_cluster import embedded_cluster
    except ModuleNotFoundError as error:
        hint = "pip install 'reconcile-runtime[embedded]'"
        raise Problem(f"the embedded server needs {error.name}", hint) from None
    with _stoppable() as stop, tempfile.TemporaryDirectory(prefix="reconcile-") as folder:
        async with embedded_cluster(Path(folder) / "kubeconfig") as cluster:
            _announce("embedded", cluster.url, manager)
            await cluster.serve_kinds(manager.controllers)
            for namespace in manager.namespaces:
                await cluster.make_namespace(namespace)
            click.echo(f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}")
            await _run(manager.on(cluster.transport()), stop)


@contextmanager
def _stoppable() -> Iterator[Stop]:
    """While inside, a signal cancels the body, or calls `Stop.act` once that is replaced."""
    with without_groups(), anyio.CancelScope() as scope, on_signal(scope.cancel) as stop:
        yield stop
    click.echo("\nstopped")


async def _run(manager: Manager, stop: Stop) -> None:
    """Run it. An error that ends it is logged with its traceback, so here it is one line and status 1."""
    stop.act = manager.stop
    try:
        with in_own_process(manager), _state_on_signal(manager):
            await manager.run()
    except _BAD_INPUT:
        raise
    except Exception as error:
        raise ManagerEnded(f"the manager has ended: {described(error)}") from error


@contextmanager
def _state_on_signal(manager: Manager) -> Iterator[None]:
    soon = in_loop()

    def log_state() -> None:
        _log.info("state", state=manager.state())

    with handling(lambda: soon(log_state), signal.SIGUSR1), logging_late_lists(manager):
        yield


@contextmanager
def logging_late_lists(manager: Manager) -> Iterator[None]:
    """While inside, log the resources whose first list is late, from time to time until all have arrived."""
    loop = asyncio.get_running_loop()
    timer = loop.call_later(PATIENCE, lambda: log_late())

    def log_late() -> None:
        nonlocal timer
        informers = manager.status().informers
        if late := [one.resource for one in informers if not one.synced]:
            _log.info("waiting for first lists", resources=late)
        if late or not informers:
            timer = loop.call_later(LATE_SECONDS, log_late)

    try:
        yield
    finally:
        timer.cancel()
