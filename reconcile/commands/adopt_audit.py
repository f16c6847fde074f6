"""`reconcile adopt kopf audit`: what an operator on kopf left, and what stands against a switch."""

import json
from collections.abc import Sequence

import anyio
import click
from attrs import frozen

from informers import APIResource, SystemClock
from reconcile.adoption.adopted_kinds import AdoptedKind, by_function, chosen, others, selectors_of
from reconcile.adoption.audit import Audit, judged, next_step, ready
from reconcile.adoption.audit_text import as_json, facts
from reconcile.adoption.cluster_reading import ClusterReading
from reconcile.adoption.kopf_handlers import KopfOperator
from reconcile.commands.adopt_read import read_or_refuse
from reconcile.commands.definition_diff import Cluster
from reconcile.commands.doctor_command import show_findings
from reconcile.commands.kubeconfig_options import kubeconfig_options
from reconcile.commands.problems import Problem
from reconcile.commands.progress import progress
from reconcile.commands.served_kinds import resource_named
from reconcile.doctor.findings import Unread
from reconcile.predecessors import KopfTraces


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path())
@click.option("-m", "--module", "modules", multiple=True, metavar="MODULE", help="Import a module too.")
@click.option(
    "--registry",
    default="",
    metavar="MODULE:NAME",
    help="The registry to read. Default: the one that decorators of kopf use by themselves.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="A kind to read, like `sites.example.com` or `secrets`.",
)
@click.option("--namespace", "-n", "namespaces", multiple=True, metavar="NS", help="Read only this one.")
@click.option(
    "--deployment",
    "deployments",
    multiple=True,
    metavar="NAME",
    help="Deployment of the operator, `NAME` or `NAMESPACE/NAME`.",
)
@click.option("--prefix", metavar="PREFIX", help="Prefix of its annotations. Default: kopf.zalando.org.")
@click.option("--finalizer", metavar="NAME", help="Its finalizer. Default: kopf's.")
@click.option("--peering", metavar="NAME", help="Name of its peering objects. Default: any.")
@kubeconfig_options
@click.option("--json", "json_wanted", is_flag=True, help="Print JSON.")
def audit(
    files: tuple[str, ...],
    modules: tuple[str, ...],
    registry: str,
    kinds: tuple[str, ...],
    namespaces: tuple[str, ...],
    deployments: tuple[str, ...],
    prefix: str | None,
    finalizer: str | None,
    peering: str | None,
    kubeconfig: str | None,
    context: str | None,
    json_wanted: bool,
) -> int:
    """Say what an operator on kopf left in a cluster; exit status 1 if that stands against a switch.

    FILE and MODULE are the operator's, imported as by `read`: the kinds of its handlers are read, under the
    names that its settings give. Without them and --kind all custom kinds are read, and those are told of
    whose objects have traces of kopf. The command reads and changes nothing; it needs the right to list the
    kinds, their definitions, peering objects, webhook configurations, and Deployments for --deployment.
    """
    operator = read_or_refuse(files, modules, registry) if files or modules else None
    names = dict(operator.trace_names) if operator is not None else {}
    given = {"prefix": prefix, "finalizer": finalizer, "peering": peering}
    names |= {name: value for name, value in given.items() if value}
    asked = _Asked(operator, kinds, namespaces, deployments, names)
    with progress("reading the objects"):
        found = anyio.run(_audited, Cluster(kubeconfig, context), asked)
    report = judged(found)
    if json_wanted:
        click.echo(json.dumps(as_json(found, report), indent=2))
    else:
        for line in facts(found):
            click.echo(line)
        show_findings(report)
        click.echo(next_step(found, report))
    return 0 if ready(report) else 1


@frozen
class _Asked:
    operator: KopfOperator | None
    kinds: Sequence[str]
    namespaces: tuple[str, ...]
    deployments: Sequence[str]
    names: dict[str, str]
    """Those of KopfTraces that are known."""

    @property
    def everything(self) -> bool:
        return self.operator is None and not self.kinds


async def _audited(cluster: Cluster, asked: _Asked) -> Audit:
    async with cluster.connected() as sender:
        reading = ClusterReading(sender, SystemClock())
        kinds, unread = await _kinds(reading, asked)
        peering = asked.names.get("peering")
        return await reading.audit(
            kinds,
            peerings=[peering] if peering else (),
            deployments=asked.deployments,
            only_with_traces=asked.everything,
            unread=unread,
        )


async def _kinds(reading: ClusterReading, asked: _Asked) -> tuple[Sequence[AdoptedKind], Sequence[Unread]]:
    """The kinds to read, and what is not known of them. Raises Problem, ApiError."""
    resources: list[APIResource] = []
    unread: list[Unread] = []
    words = list(asked.kinds)
    if asked.everything:
        resources = [kind.resource for kind in await reading.custom_kinds()]
    if asked.operator is not None:
        known, selectors = await reading.custom_kinds(), selectors_of(asked.operator)
        resources, words = list(chosen(known, selectors)), [*words, *others(known, selectors)]
        unread = [
            Unread(one, "only the running operator knows which these are", "name them with --kind")
            for one in (() if asked.kinds else by_function(selectors))
        ]
    for word in words:
        resource = await resource_named(reading.sender.transport, word)
        if resource is None:
            raise Problem(f"the server has no kind {word}", "name a kind as `kubectl api-resources` does")
        resources.append(resource)
    defaults, sure = KopfTraces(), "prefix" in asked.names
    names = KopfTraces(
        asked.names.get("prefix", defaults.prefix), asked.names.get("finalizer", defaults.finalizer)
    )
    found = [
        AdoptedKind(resource, names, asked.namespaces, any_prefix=not sure)
        for resource in dict.fromkeys(resources)
    ]
    return found, unread
