"""Checks that options fit together and the controllers (ConfigurationError), and that names are unique."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from informers import APIResource
from informers.loopback import is_loopback
from reconcile.controller.declaration import Controller
from reconcile.controller.permissions import beyond_namespaces
from reconcile.manager.interpreter import has_gil
from reconcile.manager.option_list import ConfigurationError, ManagerOptions, lease_terms
from reconcile.manager.webhook_serving import check_webhooks
from reconcile.ops.serving_addresses import LAST_PORT, parse_address


def check_options(options: ManagerOptions, controllers: Collection[Controller[Any]]) -> None:
    check_server(options)
    check_reach(options, controllers)
    for controller in controllers:
        _check_clusters(options, controller)
    names = [controller.name for controller in controllers]
    _check_names("workers", options["workers"], names)
    _check_names("timeout", options["timeout"], names)
    _check_pages(options)
    check_webhooks(options, controllers)
    lease_terms(options)
    _check_sharding(options)
    _check_loops(options)
    if options["freeze_predecessor"] and options["take_over"]:
        raise ConfigurationError(
            "freeze_predecessor and take_over exclude each other: what is not looked for is not frozen"
        )


def _check_sharding(options: ManagerOptions) -> None:
    if options["sharding"] is None:
        if options["canary"]:
            raise ConfigurationError("canary= is a share of the objects of a ring: give sharding= too")
        return
    if options["leader_election"] is not None:
        raise ConfigurationError(
            "sharding and leader_election exclude each other: replicas of a ring all work"
        )
    if options["clusters"]:
        raise ConfigurationError("sharding and clusters exclude each other: a ring is of one cluster")
    for kind, informer in options["informers"].items():
        if informer.shard:
            raise ConfigurationError(
                f"informers: {kind.__name__}: a ring selects by shard itself: leave shard= out"
            )


def _check_loops(options: ManagerOptions) -> None:
    loops = options["loops"]
    if loops == 1:
        return
    if options["sharding"] is None:
        raise ConfigurationError(
            f"loops={loops}: event loops share objects as replicas do: give sharding= too"
        )
    for name in ("transport", "embedded", "limiter", "blocking", "metrics"):
        if options[name]:
            raise ConfigurationError(
                f"loops={loops} and {name} exclude each other: each loop opens or makes its own"
            )
    if options["serve"] and (last := parse_address(options["serve"]).port + loops - 1) > LAST_PORT:
        raise ConfigurationError(
            f"loops={loops}: each serves its pages on a port of its own, and {last} is none: give a lower one"
        )
    if has_gil():
        raise ConfigurationError(
            f"loops={loops} needs a Python without the global interpreter lock, such as python3.14t: with it "
            f"threads take turns on one core. Start {loops} replicas of the ring instead, each of one loop"
        )


def check_server(options: ManagerOptions) -> None:
    if bool(options["embedded"]) + bool(options["clusters"]) + (options["transport"] is not None) > 1:
        raise ConfigurationError("transport, clusters and embedded exclude each other: choose one")


def check_reach(options: ManagerOptions, controllers: Collection[Controller[Any]]) -> None:
    if options["namespace"] and options["namespaces"]:
        raise ConfigurationError("namespace and namespaces exclude each other: choose one")
    reasons = list(beyond_namespaces(controllers)) if options["namespaces"] else []
    if options["namespaces"] and options["definitions"] == "apply":
        reasons.append("definitions=apply changes definitions of the whole cluster")
    if reasons:
        raise ConfigurationError(
            f"a manager of the namespaces {', '.join(options['namespaces'])} needs Roles alone, and "
            f"{reasons[0]}: leave that out, or give no namespaces="
        )


def _check_clusters(options: ManagerOptions, controller: Controller[Any]) -> None:
    for cluster in controller.clusters:
        if cluster not in options["clusters"]:
            known = ", ".join(options["clusters"]) or "none by name"
            raise ConfigurationError(
                f"controller {controller.name} names the cluster {cluster}; the manager has: {known}"
            )


def _check_names(option: str, value: object, names: Collection[str]) -> None:
    for name in value if isinstance(value, Mapping) else ():
        if name and name not in names:
            import difflib  # only for an error

            nearest = difflib.get_close_matches(name, names, 1, 0.0)
            hint = f": the nearest is {nearest[0]}" if nearest else ""
            raise ConfigurationError(f"{option}: there is no controller {name}{hint}")


def _check_pages(options: ManagerOptions) -> None:
    """Tokens must not travel in the clear."""
    if not options["serve"] or not options["serve_review"] or options["serve_certificates"]:
        return
    if not is_loopback(parse_address(options["serve"]).host):
        raise ConfigurationError("serve_review asks for tokens: give serve_certificates too, or loopback")


def check_unique_names(controllers: Iterable[Controller[Any]]) -> None:
    """Raises ValueError if two controllers share a name, a field manager or a finalizer of one kind."""
    names: set[str] = set()
    managers: dict[str, str] = {}
    finalizers: dict[tuple[APIResource, str], str] = {}
    for controller in controllers:
        name = controller.name
        if name in names:
            raise ValueError(f"two controllers are named {name!r}: give one of them another name=")
        names.add(name)
        for manager in (controller.field_manager, *controller.former_field_managers):
            if (other := managers.setdefault(manager, name)) != name:
                raise ValueError(
                    f"controllers {other} and {name} have the field manager {manager!r}, so each would drop "
                    "the fields that the other applied: give one of them another field_manager="
                )
        resource = controller.resource
        for finalizer in controller.finalizers:
            if (other := finalizers.setdefault((resource, finalizer), name)) != name:
                raise ValueError(
                    f"controllers {other} and {name} have the finalizer {finalizer!r} on {resource.name}, so "
                    "the first to clean up would release for both: give one of them another finalizer="
                )
