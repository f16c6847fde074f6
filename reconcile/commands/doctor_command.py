"""`reconcile doctor`: what is wrong with an operator in a cluster, and how to mend it."""

import json
from collections.abc import Sequence
from typing import Any, Final

import anyio
import click
from anyio.to_thread import run_sync
from attrs import frozen
from click.core import ParameterSource

from informers import MalformedAnswer, SystemClock, Transport
from informers.cluster_connection import ConfigurationProblem
from informers.kubernetes import connect
from reconcile.commands.completions import modules
from reconcile.commands.debug_client import DebugClient, manager_options
from reconcile.commands.kubeconfig_options import kubeconfig_options
from reconcile.commands.problems import Problem
from reconcile.commands.targets import load_operator
from reconcile.controller.declaration import Controller
from reconcile.doctor.checks import report_of
from reconcile.doctor.declared import Declared, declared_by
from reconcile.doctor.findings import Report, Severity, Unread, printable
from reconcile.doctor.gathering import Managers, gather, installed
from reconcile.doctor.managers import ManagerState, manager_state
from reconcile.manager.option_list import ConfigurationError, ManagerOptions, complete_options

_COLOURS: Final[dict[Severity, str]] = {"error": "red", "warning": "yellow", "unknown": "cyan"}


@click.command()
@click.argument("module", required=False, shell_complete=modules)
@click.option(
    "--name", metavar="NAME", help="Name of the operator. Default: that of the manager or the module."
)
@click.option(
    "--namespace", "-n", metavar="NS", help="Namespace that the operator runs in. Default: NAME-system."
)
@kubeconfig_options
@click.option("--json", "as_json", is_flag=True, help="Print the findings as a JSON list.")
@manager_options
def doctor(
    module: str | None,
    name: str | None,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    as_json: bool,
    manager: DebugClient,
) -> int:
    """Find what is wrong with an operator in a cluster; exit status 1 if there is an error.

    MODULE is what `reconcile manifests` was given. Without it, --name says which operator is meant, and
    nothing is compared with code. The command reads and changes nothing. Each line is one finding with the
    next step. A check whose facts your rights do not show says so, and the others go on.
    """
    asked = _asked(module, name, namespace)
    given = click.get_current_context().get_parameter_source("url") is ParameterSource.COMMANDLINE
    report = anyio.run(_examined, kubeconfig, context, asked, manager if given else None)
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        show_findings(report)
        click.echo(report.summary())
    return 1 if report.failed else 0


@frozen
class _Asked:
    """The operator that is meant, and what its code says."""

    name: str
    namespace: str
    module: str
    controllers: Sequence[Controller[Any]]
    options: ManagerOptions

    def declared(self, arguments: Sequence[str]) -> Declared:
        """Raises Problem."""
        parts = (self.name, self.namespace, self.module, self.controllers, self.options)
        try:
            return declared_by(*parts, arguments)
        except ConfigurationError as error:
            raise Problem(
                f"the Deployment {self.namespace}/{self.name} has arguments that no manager takes",
                printable(str(error)),
            ) from None


def _asked(module: str | None, name: str | None, namespace: str | None) -> _Asked:
    """Raises Problem."""
    if module is None:
        if not name:
            raise Problem(
                "neither a MODULE nor --name was given", "name the operator: reconcile doctor MODULE"
            )
        return _Asked(name, namespace or f"{name}-system", "", (), complete_options({}))
    operator = load_operator(module, name or "")
    try:
        operator.manager.configure()
    except ConfigurationError as error:
        raise Problem(str(error)) from None
    home = namespace or f"{operator.name}-system"
    return _Asked(operator.name, home, module, operator.manager.controllers, operator.manager.options)


async def _examined(
    kubeconfig: str | None, context: str | None, asked: _Asked, manager: DebugClient | None
) -> Report:
    try:
        transport = await connect(kubeconfig, context)
    except ConfigurationProblem as problem:
        raise Problem(str(problem), "name another with --kubeconfig") from None
    try:
        return await examined(transport, asked, manager)
    finally:
        with anyio.CancelScope(shield=True):
            await transport.aclose()


async def examined(transport: Transport, asked: _Asked, manager: DebugClient | None) -> Report:
    """Raises Problem."""
    there = await installed(transport, asked.namespace, asked.name)
    if isinstance(there.deployment, Unread) and there.deployment.unreachable:
        raise Problem(there.deployment.why, "check --context, and that the cluster can be reached")
    declared = asked.declared(there.arguments)
    facts = await gather(
        transport, SystemClock(), declared, there, None if manager is None else _reading(manager)
    )
    return report_of(declared, facts)


def _reading(manager: DebugClient) -> Managers:
    async def read() -> Sequence[ManagerState] | Unread:
        try:
            state = await run_sync(manager.read, "/debug/state")
            metrics = await run_sync(manager.read, "/metrics")
            return [manager_state(manager.url, state, metrics.decode(errors="replace"))]
        except (Problem, MalformedAnswer) as error:
            hint = (
                error.hint if isinstance(error, Problem) else "pass the address of a manager with --manager"
            )
            return Unread(f"state of {manager.url}", str(error).removesuffix(f": {hint}"), hint)

    return read


def show_findings(report: Report) -> None:
    """Print each finding in a line, the severity in its colour."""
    for one in report.findings:
        level, _, rest = one.line().partition(" ")
        click.echo(f"{click.style(level, fg=_COLOURS[one.severity])} {rest}")
