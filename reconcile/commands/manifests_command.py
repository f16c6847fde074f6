"""`reconcile manifests`: the objects that run an operator in a cluster."""

import json
from collections.abc import Sequence
from pathlib import Path

import click
from attrs import asdict, evolve

from reconcile.commands.admission_table import rows_of
from reconcile.commands.bundle_folder import write_bundle
from reconcile.commands.chart_folder import diff_chart, write_chart
from reconcile.commands.completions import modules
from reconcile.commands.crds_command import served_definition
from reconcile.commands.installations import checked_options, installation_of
from reconcile.commands.monitoring_flags import check_monitoring, monitoring_of
from reconcile.commands.problems import Problem, write_files
from reconcile.commands.release_files import folders_of, project_in, samples_of
from reconcile.commands.targets import Operator, load_operator
from reconcile.controller.permissions import beyond_namespaces
from reconcile.manager.option_checks import check_options
from reconcile.manager.option_list import ConfigurationError, from_flags, overridden
from reconcile.models.versions import families
from reconcile.shipping.chart import chart_of, chart_version
from reconcile.shipping.chart_values import Choices
from reconcile.shipping.documents import Document, as_yaml, json_list
from reconcile.shipping.installation import Installation, documents_of, kustomization
from reconcile.shipping.monitoring import monitoring_documents
from reconcile.webhooks.configurations import WebhookService


@click.command()
@click.argument("module", shell_complete=modules)
@click.option("--image", metavar="I", help="Image of the operator. Default: NAME:latest.")
@click.option(
    "--replicas",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Pods, of which one leads and the others stand by (default: 2), or which all work with --sharding"
    " (default: 3).",
)
@click.option(
    "--sharding",
    metavar="NAME",
    help="Have the pods share all objects, as the ring [NAMESPACE/]NAME. Default: one leads; NAMESPACE is the"
    " operator's own.",
)
@click.option(
    "--namespaces",
    metavar="A,B",
    help="Work in these namespaces only, with a Role in each and no ClusterRole. Default: those of the"
    " manager, or all.",
)
@click.option(
    "--name", metavar="NAME", help="Name of its objects. Default: that of the manager or the module."
)
@click.option(
    "--namespace", "-n", metavar="NS", help="Namespace that the operator runs in. Default: NAME-system."
)
@click.option(
    "--owner-finalizers",
    is_flag=True,
    help="Allow updates of finalizers, which OwnerReferencesPermissionEnforcement (OpenShift) demands of"
    " controllers with children.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a kustomize base into this folder instead of printing it.",
)
@click.option(
    "--olm",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write a bundle for the Operator Lifecycle Manager into this folder instead.",
)
@click.option(
    "--version", metavar="V", help="With --olm: version of the operator. Default: that of its pyproject.toml."
)
@click.option(
    "--replaces", metavar="V", help="With --olm: the version that is upgraded to this one. Default: none."
)
@click.option(
    "--helm",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write a Helm chart into this folder instead, whose default values give the same objects.",
)
@click.option(
    "--diff", is_flag=True, help="With --helm: print what --merge would change, with status 1 if anything."
)
@click.option(
    "--merge", is_flag=True, help="With --helm: write into files that you changed, and keep your changes."
)
@click.option(
    "--monitoring",
    is_flag=True,
    help="Add what has Prometheus collect metrics, service levels and alerts, and dashboards of Grafana.",
)
@click.option(
    "--pod-monitor", is_flag=True, help="With --monitoring: a PodMonitor, without a Service for metrics."
)
@click.option(
    "--monitoring-label",
    "monitoring_labels",
    multiple=True,
    metavar="K=V",
    help="With --monitoring: label by which Prometheus selects monitors and rules; repeatable.",
)
@click.option(
    "--metrics-reader",
    metavar="NS/NAME",
    help="With --monitoring and serve_certificates=: Prometheus's ServiceAccount, to get /metrics.",
)
@click.option(
    "--metrics-ca",
    metavar="SECRET",
    help="With --monitoring and serve_certificates=: the Secret in the operator's namespace whose ca.crt"
    " signed the certificate. Default: a CA that Prometheus trusts anyway.",
)
@click.option(
    "--runbooks",
    metavar="URL",
    help="With --monitoring: where copies of the runbooks are. Default: alerts have no link.",
)
@click.option(
    "--explain-admission",
    is_flag=True,
    help="Print instead where each rule about objects is enforced: schema, CEL or webhook, and why there.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one List, as JSON.")
def manifests(
    module: str,
    image: str | None,
    replicas: int | None,
    sharding: str | None,
    namespaces: str | None,
    name: str | None,
    namespace: str | None,
    owner_finalizers: bool,
    out: Path | None,
    olm: Path | None,
    version: str | None,
    replaces: str | None,
    helm: Path | None,
    diff: bool,
    merge: bool,
    monitoring: bool,
    pod_monitor: bool,
    monitoring_labels: Sequence[str],
    metrics_reader: str | None,
    metrics_ca: str | None,
    runbooks: str | None,
    explain_admission: bool,
    as_json: bool,
) -> None:
    """Print the manifests that run the operator of MODULE in a cluster.

    MODULE is a module with a Manager or with Controllers, or my_module:manager.
    They are its CustomResourceDefinitions, a ServiceAccount, the least rights that it can run with, a
    Deployment with probes and leader election (or --sharding), a PodDisruptionBudget, and for admission and
    conversion a Service and the configurations of its webhooks. The rights follow from what
    its controllers declare: their kind, owns=, watches=, reads= and writes=.
    """
    if out is not None and as_json:
        raise Problem("--out and --json were both given", "use one of them")
    _check_bundle_flags(olm, version, replaces, other=out is not None or as_json or explain_admission)
    others = out is not None or olm is not None or as_json or explain_admission
    _check_chart_flags(helm, diff, merge, other=others)
    watched = monitoring_of(
        monitoring,
        pods=pod_monitor,
        labels=monitoring_labels,
        reader=metrics_reader,
        authority=metrics_ca,
        runbooks=runbooks,
    )
    if watched is not None and olm is not None:
        raise Problem(
            "--olm and --monitoring were both given",
            "apply the files of --monitoring --out yourself: alerts name the namespace, which OLM chooses",
        )
    operator = load_operator(module, name or "")
    options = checked_options(operator, sharding)
    if explain_admission:
        _explain_admission(operator, as_json)
        return
    deployed = installation_of(
        operator,
        options,
        namespace=namespace,
        namespaces=namespaces,
        sharding=sharding,
        image=image,
        replicas=replicas,
        owner_finalizers=owner_finalizers,
        monitoring=watched,
    )
    check_monitoring(deployed)
    _check(deployed, operator)
    if olm is not None:
        definitions = _definitions(operator, deployed.webhook_service)
        write_bundle(olm, operator, deployed, definitions, version or "", replaces or "")
        return
    if helm is not None:
        _write_chart(helm, operator, deployed, diff=diff, merge=merge)
        return
    files = documents_of(deployed, _definitions(operator, deployed.webhook_service))
    files = {**files, **monitoring_documents(deployed)}
    if out is not None:
        files = {**files, "kustomization.yaml": [kustomization(files)]}
        write_files(out, {name: as_yaml(*documents) for name, documents in files.items()})
        return
    objects = [document for documents in files.values() for document in documents]
    if as_json:
        click.echo(json_list(objects))
    else:
        click.echo(as_yaml(*objects), nl=False)


def _check_bundle_flags(olm: Path | None, version: str | None, replaces: str | None, *, other: bool) -> None:
    if olm is None and (version is not None or replaces is not None):
        raise Problem("--version and --replaces are for a bundle", "give --olm DIR too")
    if olm is not None and other:
        raise Problem(
            "--olm writes a bundle and nothing else", "leave out --out, --json and --explain-admission"
        )


def _check_chart_flags(helm: Path | None, diff: bool, merge: bool, *, other: bool) -> None:
    if helm is None and (diff or merge):
        raise Problem("--diff and --merge are for a chart", "give --helm DIR too")
    if helm is not None and other:
        raise Problem(
            "--helm writes a chart and prints nothing",
            "leave out --out, --olm, --json, --explain-admission",
        )
    if diff and merge:
        raise Problem("--diff and --merge were both given", "use --diff first, which changes nothing")


def _write_chart(
    folder: Path, operator: Operator, deployed: Installation, *, diff: bool, merge: bool
) -> None:
    def definitions(service: WebhookService | None) -> Sequence[Document]:
        return _definitions(operator, service)

    folders = folders_of(operator)
    project = project_in(folders, operator, chart_version(deployed.image))
    samples = samples_of(folders, definitions(deployed.webhook_service))
    files = chart_of(deployed, definitions, _choices(deployed, operator), project, samples)
    if not diff:
        write_chart(folder, files, merge=merge)
    elif diff_chart(folder, files):
        click.get_current_context().exit(1)


def _choices(deployed: Installation, operator: Operator) -> Choices:
    """What the manager does not say itself, and its controllers do not exclude."""
    options = operator.manager.options
    kept = evolve(deployed, namespaces=("default",), review=options["serve_review"])
    return Choices(sharding=_may_share(operator), namespaces=_beyond_roles(kept) is None)


def _may_share(operator: Operator) -> bool:
    """Whether --sharding decides how its pods get along."""
    options = operator.manager.options
    try:
        shared = overridden(options, from_flags({"sharding": operator.name}))
        check_options(shared, operator.manager.controllers)
    except ConfigurationError:
        return False
    return options["sharding"] is None


def _explain_admission(operator: Operator, as_json: bool) -> None:
    try:
        rows = rows_of(operator.manager.controllers)
    except (TypeError, NameError) as error:
        raise Problem(f"{operator.name} keeps a kind without a definition", str(error)) from None
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
        return
    lines = [("KIND", "RULE", "ENFORCED BY", "BECAUSE")]
    lines += [(row.kind, row.rule, row.place, row.reason) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        click.echo("  ".join([*cells, line[3]]).rstrip())


def _check(deployed: Installation, operator: Operator) -> None:
    bundled = next((target for target in operator.targets if ":" not in target), "")
    if bundled:
        raise Problem(
            f"the kinds of the bundled controller {bundled} may be defined by another project",
            "import it in a module of yours, and apply the crd_ files only where no other project does",
        )
    if operator.manager.options["clusters"]:
        raise Problem(
            "the manager works in several clusters, and manifests are for one",
            "name a module:manager that works in one",
        )
    reason = _beyond_roles(deployed)
    if deployed.namespaces and reason is not None:
        raise Problem(f"Roles in namespaces are not enough: {reason}", "leave out --namespaces")
    if deployed.review and not deployed.tls:
        raise Problem(
            "serve_review asks for tokens, and the pods would serve without TLS",
            "give Manager(serve_certificates=) too, the folder where a Secret is mounted",
        )


def _beyond_roles(deployed: Installation) -> str | None:
    """Why it needs a ClusterRole; None if it does not."""
    if reasons := beyond_namespaces(deployed.controllers):
        return reasons[0]
    if deployed.review:
        return "serve_review asks for reviews of the whole cluster"
    if deployed.applies_definitions:
        return "definitions=apply changes definitions of the whole cluster"
    return None


def _definitions(operator: Operator, service: WebhookService | None) -> Sequence[Document]:
    kept = [controller.kind for controller in operator.manager.controllers]
    try:
        return [served_definition(versions, service) for versions in families(kept)]
    except (TypeError, NameError) as error:
        raise Problem(f"{operator.name} keeps a kind without a definition", str(error)) from None
