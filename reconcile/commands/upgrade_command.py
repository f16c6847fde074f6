"""`reconcile upgrade`: what a new version of an operator means for a cluster, before it is installed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import anyio
import click
from attrs import asdict, frozen

from reconcile.client.sender import Sender, json_object
from reconcile.commands.completions import modules
from reconcile.commands.definition_diff import Cluster, DefinitionDiff, found, replaced, rolled_out
from reconcile.commands.installations import checked_options, installation_of
from reconcile.commands.kubeconfig_options import kubeconfig_options
from reconcile.commands.problems import Problem
from reconcile.commands.progress import progress
from reconcile.commands.targets import load_operator
from reconcile.manager.definition_keeping import wanted_definitions
from reconcile.shipping.documents import Document
from reconcile.shipping.installation import Installation, documents_of, webhook_configurations
from reconcile.shipping.upgrade_plan import (
    MissingRight,
    WebhookChanges,
    missing_rights,
    roles_of,
    webhook_changes,
)
from reconcile.webhooks.wanted_definitions import WantedDefinition

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"


@click.command()
@click.argument("module", shell_complete=modules)
@click.option("--plan", is_flag=True, help="Print what the new version means for the cluster.")
@click.option(
    "--name", metavar="NAME", help="Name of its objects. Default: that of the manager or the module."
)
@click.option(
    "--namespace", "-n", metavar="NS", help="Namespace that the operator runs in. Default: NAME-system."
)
@click.option(
    "--namespaces", metavar="A,B", help="Namespaces that it works in, as given to `reconcile manifests`."
)
@click.option("--sharding", metavar="NAME", help="Its ring, as given to `reconcile manifests`.")
@click.option("--owner-finalizers", is_flag=True, help="As given to `reconcile manifests`.")
@kubeconfig_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def upgrade(
    module: str,
    plan: bool,
    name: str | None,
    namespace: str | None,
    namespaces: str | None,
    sharding: str | None,
    owner_finalizers: bool,
    kubeconfig: str | None,
    context: str | None,
    as_json: bool,
) -> int:
    """Say what this version of the operator of MODULE means for a cluster that runs another one.

    The plan has what its definitions add (+) and narrow (-, ?), the stored objects that would not fit, the
    versions that are stored, the rights that its roles lack, and the webhooks that come and go. Nothing is
    changed: a manager with definitions="apply" changes definitions, after the same proof; otherwise apply
    what `reconcile manifests` prints. Exit status 1: a definition would be refused.
    """
    if not plan:
        raise Problem(
            "reconcile upgrade changes nothing by itself",
            "add --plan; then apply what `reconcile manifests` prints, with kubectl or Helm; with"
            ' Manager(definitions="apply") the operator changes its definitions when it starts',
        )
    operator = load_operator(module, name or "")
    if operator.manager.options["clusters"]:
        raise Problem(
            "the manager works in several clusters, and a plan is for one",
            "name a module:manager that works in one",
        )
    new = installation_of(
        operator,
        checked_options(operator, sharding),
        namespace=namespace,
        namespaces=namespaces,
        sharding=sharding,
        owner_finalizers=owner_finalizers,
    )
    with progress(f"planning the upgrade of {operator.name}"):
        planned = anyio.run(_planned, Cluster(kubeconfig, context), new, _wanted(new))
    click.echo(json.dumps(planned.to_json(), indent=2) if as_json else "\n".join(planned.lines()))
    return 1 if planned.is_refused else 0


@frozen
class UpgradePlan:
    """What the version of an operator that is here means for a cluster."""

    operator: Installation
    definitions: Sequence[DefinitionDiff]
    newest: Mapping[str, str]
    """The version that each definition is to store."""
    rights: Sequence[MissingRight]
    webhooks: WebhookChanges

    @property
    def is_refused(self) -> bool:
        return any(diff.problem for diff in self.definitions)

    @property
    def migrations(self) -> Sequence[str]:
        """What becomes of objects that are not stored in the newest version."""
        moved = (
            "the manager rewrites them"
            if self.operator.applies_definitions
            else 'they stay so: Manager(definitions="apply") rewrites them, or a StorageVersionMigration'
        )
        return [
            f"{diff.name}: objects are stored as {', '.join(diff.stored_versions)}, and are to be stored as "
            f"{self.newest[diff.name]}: {moved}"
            for diff in self.definitions
            if diff.stored_versions and list(diff.stored_versions) != [self.newest[diff.name]]
        ]

    def to_json(self) -> Mapping[str, Any]:
        return {
            "operator": self.operator.name,
            "namespace": self.operator.namespace,
            "definitions": [diff.to_json() for diff in self.definitions],
            "migrations": list(self.migrations),
            "missingRights": [asdict(right) for right in self.rights],
            "webhooks": {"come": list(self.webhooks.come), "go": list(self.webhooks.go)},
            "refused": self.is_refused,
        }

    def lines(self) -> Iterator[str]:
        yield f"operator {self.operator.name} in {self.operator.namespace}"
        yield "definitions:" if self.definitions else "definitions: none of its own"
        yield from (f"  {line}" for diff in self.definitions for line in diff.lines())
        yield from _section("stored objects", self.migrations, "all in the version to store")
        yield from _section("rights that are missing", list(map(str, self.rights)), "none")
        changes = [*(f"+ {name}" for name in self.webhooks.come), *(f"- {name}" for name in self.webhooks.go)]
        yield from _section("webhooks", changes, "no changes")
        if self.is_refused:
            yield "this upgrade would be refused: see `refused` above"


def _section(title: str, lines: Sequence[str], without: str) -> Iterator[str]:
    yield f"{title}:" if lines else f"{title}: {without}"
    yield from (f"  {line}" for line in lines)


def _wanted(new: Installation) -> Sequence[WantedDefinition]:
    service = new.webhook_service
    try:
        return wanted_definitions(
            new.controllers, "" if service is None else f"{service.namespace}/{service.name}"
        )
    except (TypeError, NameError) as error:
        raise Problem(f"{new.name} keeps a kind without a definition", str(error)) from None


async def _planned(cluster: Cluster, new: Installation, wanted: Sequence[WantedDefinition]) -> UpgradePlan:
    compare = rolled_out if new.applies_definitions else replaced
    documents = [one for files in documents_of(new, []).values() for one in files]
    service = new.webhook_service
    configurations = [] if service is None else webhook_configurations(new, service)
    async with cluster.connected() as sender:
        diffs = [await compare(sender, one) for one in wanted]
        rights = [right for role in roles_of(documents) for right in await _missing(sender, role)]
        webhooks = webhook_changes(configurations, await _installed_webhooks(sender, new.name))
    return UpgradePlan(new, diffs, {one.name: one.newest for one in wanted}, rights, webhooks)


async def _missing(sender: Sender, role: Document) -> Sequence[MissingRight]:
    namespace, name = role["metadata"].get("namespace"), role["metadata"]["name"]
    place = f"namespaces/{namespace}/roles" if namespace else "clusterroles"
    return missing_rights(role, await found(sender, f"{_RBAC}/{place}/{name}"))


async def _installed_webhooks(sender: Sender, operator: str) -> Sequence[Document]:
    selector = {"labelSelector": f"app.kubernetes.io/name={operator}"}
    configurations: list[Document] = []
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        listed = await sender.send("GET", f"{_WEBHOOKS}/{kind.lower()}s", json_object, selector)
        configurations += [{"kind": kind, **item} for item in listed.get("items") or ()]
    return configurations
