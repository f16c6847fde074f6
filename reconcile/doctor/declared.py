"""What an operator needs, by the declarations of its code and the arguments of its Deployment. Pure."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from attrs import evolve, field, frozen

from informers import APIResource
from reconcile.controller.declaration import Controller
from reconcile.manager.option_list import ManagerOptions, followed_namespaces, from_flags, overridden
from reconcile.models import Object, kind_of
from reconcile.models.versions import families, is_custom
from reconcile.shipping.documents import Document
from reconcile.shipping.installation import Installation, documents_of
from reconcile.webhooks.routes import routes_of

_FLAGS: Final = ("namespaces", "leader-election", "sharding", "definitions", "webhook-certificates")
"""Options that change the rights; what a Deployment does not say is as in the code."""
_REVIEW: Final = "serve-review"


@frozen
class Declared:
    """The operator `name` in `namespace`. Without a `module` only what runs in the cluster is known of it.

    `roles` are the least ones that it can work with, and `most` those that any of its options may ask for.
    `lease` and `ring` are a namespace and a name.
    """

    name: str
    namespace: str
    module: str = ""
    controllers: Sequence[Controller[Any]] = ()
    roles: Sequence[Document] = ()
    most: Sequence[Document] = ()
    lease: tuple[str, str] | None = None
    ring: tuple[str, str] | None = None
    families: Sequence[Sequence[type[Object]]] = field(factory=tuple)
    namespaces: Sequence[str] = ()
    """Those that it keeps to; empty: all."""

    @property
    def resources(self) -> Sequence[APIResource]:
        """The kinds of its objects and of their children."""
        kinds = [kind for one in self.controllers for kind in (one.kind, *one.owns)]
        return list(dict.fromkeys(kind_of(kind).resource for kind in kinds if kind is not Object))

    @property
    def definitions(self) -> Sequence[str]:
        """The names of the definitions of its kinds."""
        return [kind_of(versions[0]).resource.name for versions in self.families]

    @property
    def finalizers(self) -> frozenset[str]:
        """Those with which its controllers hold objects."""
        return frozenset(name for one in self.controllers for name in one.finalizers)

    @property
    def manifests(self) -> str:
        """The command that prints what is to be installed."""
        module = self.module or "MODULE"
        words = ["reconcile", "manifests", module, "--name", self.name, "--namespace", self.namespace]
        words += ["--namespaces", ",".join(self.namespaces)] if self.namespaces else []
        words += ["--sharding", "/".join(self.ring)] if self.ring else []
        return shlex.join(words)


def declared_by(
    name: str,
    namespace: str,
    module: str,
    controllers: Sequence[Controller[Any]],
    options: ManagerOptions,
    arguments: Sequence[str] = (),
) -> Declared:
    """What the code declares, with `options`, as the `arguments` of its Deployment change them.

    Raises ConfigurationError for arguments that no manager takes.
    """
    flags = flags_of(arguments)
    options = overridden(options, from_flags({flag.replace("-", "_"): flags.get(flag) for flag in _FLAGS}))
    election, ring = options["leader_election"], options["sharding"]
    own = Declared(
        name=name,
        namespace=namespace,
        module=module,
        controllers=controllers,
        lease=None if election is None else (election.namespace, election.name),
        ring=None if ring is None else (ring.namespace, ring.name),
        families=families([one.kind for one in controllers if is_custom(one.kind)]),
        namespaces=followed_namespaces(options),
    )
    if not module:
        return own
    installed = Installation(
        name=name,
        lease=name if election is None else election.name,
        namespace=namespace,
        image="",
        targets=(module,),
        controllers=controllers,
        ring=own.ring,
        namespaces=own.namespaces,
        review=_REVIEW in flags or options["serve_review"],
        applies_definitions=options["definitions"] == "apply",
        freezes_predecessor=options["freeze_predecessor"],
        routes=routes_of(controllers),
        webhook_certificates=options["webhook_certificates"],
    )
    most = evolve(installed, owner_finalizers=True)
    return evolve(own, roles=_roles_of(installed), most=_roles_of(most))


def _roles_of(installed: Installation) -> Sequence[Document]:
    """Roles that are bound to the operator; that of who collects its metrics is not."""
    return [one for one in documents_of(installed, [])["rbac.yaml"] if one["kind"] in ("Role", "ClusterRole")]


def flags_of(arguments: Iterable[str]) -> Mapping[str, str]:
    """The flags among arguments, by their names without dashes; `--name value` as `--name=value`."""
    found: dict[str, str] = {}
    before = ""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name.startswith("--"):
            found[name.removeprefix("--")] = value
            before = "" if equals else name.removeprefix("--")
        elif before:
            found[before], before = argument, ""
    return found
