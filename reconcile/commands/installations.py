"""How the operator of a command is installed, from the options of its manager and those of the command."""

import re
from collections.abc import Sequence

from reconcile.commands.problems import Problem
from reconcile.commands.targets import Operator
from reconcile.manager.option_checks import check_options
from reconcile.manager.option_list import ConfigurationError, ManagerOptions, from_flags, overridden
from reconcile.shipping.installation import Installation, Monitoring
from reconcile.webhooks.routes import routes_of

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def checked_options(operator: Operator, sharding: str | None = None) -> ManagerOptions:
    """The options with which its pods run. Raises Problem."""
    try:
        operator.manager.configure()
        options = overridden(operator.manager.options, from_flags({"sharding": sharding}))
        check_options(options, operator.manager.controllers)
    except ConfigurationError as error:
        raise Problem(str(error)) from None
    return options


def installation_of(
    operator: Operator,
    options: ManagerOptions,
    *,
    namespace: str | None,
    namespaces: str | None,
    sharding: str | None = None,
    image: str | None = None,
    replicas: int | None = None,
    owner_finalizers: bool = False,
    monitoring: Monitoring | None = None,
) -> Installation:
    """The installation with these `options`; None is what the manager says or the default. Raises Problem."""
    election = options["leader_election"]
    home = _label(namespace or f"{operator.name}-system", "--namespace")
    ring = options["sharding"]
    # Text without a namespace means the operator's own here, as a Lease of a leader is there too.
    own = ring is None or (sharding is not None and "/" not in sharding)
    # Empty is as if not given: a pod without the option keeps to what its manager says.
    kept_to = _namespaces(namespaces) if namespaces else operator.manager.namespaces
    return Installation(
        name=operator.name,
        lease=operator.name if election is None else election.name,
        namespace=home,
        image=image or f"{operator.name}:latest",
        targets=operator.targets,
        controllers=operator.manager.controllers,
        replicas=replicas or (2 if ring is None else 3),
        ring=None if ring is None else (home if own else ring.namespace, ring.name),
        namespaces=kept_to,
        tls=bool(options["serve_certificates"]),
        # The port is open to the cluster, so metrics need a review, and a review needs TLS for its tokens.
        review=options["serve_review"] or bool(options["serve_certificates"] and not kept_to),
        owner_finalizers=owner_finalizers,
        applies_definitions=options["definitions"] == "apply",
        freezes_predecessor=options["freeze_predecessor"],
        stop_seconds=options["stop_seconds"],
        routes=routes_of(operator.manager.controllers),
        webhook_certificates=options["webhook_certificates"],
        monitoring=monitoring,
    )


def _namespaces(text: str) -> Sequence[str]:
    names = [_label(name.strip(), "--namespaces") for name in text.split(",")]
    return tuple(dict.fromkeys(names))


def _label(name: str, option: str) -> str:
    if not _LABEL.fullmatch(name):
        raise Problem(
            f"{option}: {name!r} is not the name of a namespace", "use at most 63 of a-z, 0-9 and dashes"
        )
    return name
