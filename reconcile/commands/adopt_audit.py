"""`reconcile adopt kopf audit`: what an operator on kopf left, and what stands against a switch."""

import json

import anyio
import click

from informers import SystemClock
from reconcile.adoption.audit import Audit, judged, next_step, ready
from reconcile.adoption.audit_text import as_json, facts
from reconcile.adoption.cluster_reading import ClusterReading
from reconcile.commands.definition_diff import Cluster
from reconcile.commands.doctor_command import show_findings
from reconcile.commands.kopf_options import FormerOperator, former_operator_options, kinds_of
from reconcile.commands.kubeconfig_options import kubeconfig_options
from reconcile.commands.progress import progress


@click.command()
@former_operator_options
@kubeconfig_options
@click.option("--json", "json_wanted", is_flag=True, help="Print JSON.")
def audit(former: FormerOperator, kubeconfig: str | None, context: str | None, json_wanted: bool) -> int:
    """Say what an operator on kopf left in a cluster; exit status 1 if that stands against a switch.

    FILE and MODULE are the operator's, imported as by `read`: the kinds of its handlers are read, under the
    names that its settings give. Without them and --kind all custom kinds are read, and those are shown
    whose objects have traces of kopf. Without --peering all peering objects count. The command reads and
    changes nothing; it needs the right to list the kinds, their definitions, peering objects, webhook
    configurations, and Deployments and pods for --deployment.
    """
    with progress("reading the objects"):
        found = anyio.run(_audited, Cluster(kubeconfig, context), former)
    report = judged(found)
    if json_wanted:
        click.echo(json.dumps(as_json(found, report), indent=2))
    else:
        for line in facts(found):
            click.echo(line)
        show_findings(report)
        click.echo(next_step(found, report))
    return 0 if ready(report) else 1


async def _audited(cluster: Cluster, former: FormerOperator) -> Audit:
    async with cluster.connected() as sender:
        reading = ClusterReading(sender, SystemClock())
        kinds, unread = await kinds_of(former, reading)
        peering = former.names.get("peering")
        return await reading.audit(
            kinds,
            peerings=[peering] if peering else (),
            deployments=former.deployments,
            only_with_traces=former.is_anyone,
            unread=unread,
        )
