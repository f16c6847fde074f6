"""The webhooks of a manager: with which certificate they are served, and what is wrong with the options."""

import datetime
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from informers import Clock, Transport, get_logger
from reconcile.client.client import Client
from reconcile.controller.declaration import Controller
from reconcile.manager.option_list import ConfigurationError, ManagerOptions
from reconcile.models.versions import families
from reconcile.ops.serving_addresses import ServeError, parse_address

if TYPE_CHECKING:
    from reconcile.manager.certificate_keeper import CertificateKeeper
    from reconcile.manager.webhook_server import Call, ServingCertificate
    from reconcile.ops.metrics import Metrics
    from reconcile.webhooks.routes import Route

_DAY = datetime.timedelta(days=1)
_log = get_logger("reconcile.webhooks")


def _passes() -> None:
    """The certificate of a folder is trusted by whatever fills the folder."""


@frozen
class ServedWebhooks:
    """Where webhooks are served; empty: nowhere. `check` raises while calls to them may fail."""

    address: str = ""
    check: Callable[[], None] = _passes


def routes_of(controllers: Iterable[Controller[Any]]) -> "Sequence[Route]":
    """The routes of a manager; raises TypeError and ValueError as `reconcile.webhooks.routes.routes_of` does.

    Which module is loaded only where a controller has something that a webhook may serve.
    """
    controllers = list(controllers)
    versions = families([controller.kind for controller in controllers])
    if not any(one.admission for one in controllers) and all(len(kinds) < 2 for kinds in versions):
        return ()
    from reconcile.webhooks import routes

    return routes.routes_of(controllers)


@asynccontextmanager
async def webhooks_served(
    options: ManagerOptions,
    controllers: Iterable[Controller[Any]],
    transport: Transport,
    metrics: "Metrics | None" = None,
) -> AsyncIterator[ServedWebhooks]:
    """Serve while inside; the address is empty where webhooks are off. Raises ServeError.

    `transport` leads to the API server that calls them, for certificates of the operator's own.
    """
    routes = routes_of(controllers)
    if not (options["webhooks"] and routes):
        if routes and not options["embedded"]:
            names = [route.name for route in routes]
            _log.info("webhooks are not served here: webhooks= is not set", webhooks=names)
        if options["webhooks"]:
            _log.warning("no webhooks are served: no controller has admission= or versions to convert")
        yield ServedWebhooks()
        return
    from reconcile.manager.webhook_server import serving_webhooks

    async with (
        _certificate(options, routes, transport, metrics) as (certificate, check),
        serving_webhooks(parse_address(options["webhooks"]), routes, certificate, _counted(metrics)) as bound,
    ):
        yield ServedWebhooks(str(bound), check)


def _counted(metrics: "Metrics | None") -> "Callable[[Call], None]":
    if metrics is None:
        return lambda call: None
    return lambda call: metrics.webhook_called(call.webhook, call.status, call.result, call.seconds)


def _days_shown(clock: Clock, metrics: "Metrics | None") -> Callable[[datetime.datetime], None]:
    """Has the metrics count the days until the end of validity that it is called with."""
    if metrics is None:
        return lambda until: None
    return lambda until: metrics.webhook_certificate(lambda: (until - clock.now()) / _DAY)


@asynccontextmanager
async def _certificate(
    options: ManagerOptions, routes: "Sequence[Route]", transport: Transport, metrics: "Metrics | None"
) -> "AsyncIterator[tuple[ServingCertificate, Callable[[], None]]]":
    """The certificate, and a check that raises while API servers may not trust it."""
    on_shown = _days_shown(options["clock"], metrics)
    if options["webhook_service"]:
        async with _own_certificate(options, routes, transport, on_shown) as keeper:
            yield keeper, keeper.check_ready
        return

    from reconcile.ops.certificate_rotation import NoCertificate, rotating

    def found(certificate: bytes) -> None:
        if metrics is None or find_spec("cryptography") is None:
            return
        from reconcile.webhooks.certificate_authority import valid_until

        with suppress(ValueError):  # what OpenSSL can read and cryptography cannot is served all the same
            on_shown(valid_until(certificate.decode()))

    try:
        async with rotating(Path(options["webhook_certificates"]), on_shown=found) as certificate:
            yield certificate, _passes
    except NoCertificate as error:
        raise ServeError(f"cannot serve webhooks on {options['webhooks']}: {error}") from None


@asynccontextmanager
async def _own_certificate(
    options: ManagerOptions,
    routes: "Sequence[Route]",
    transport: Transport,
    on_shown: Callable[[datetime.datetime], None],
) -> AsyncIterator["CertificateKeeper"]:
    from reconcile.manager.certificate_keeper import kept_certificate
    from reconcile.webhooks.calling_objects import calling_objects
    from reconcile.webhooks.certificate_secret import UnusableSecret
    from reconcile.webhooks.configurations import WebhookService

    service = WebhookService.of(options["webhook_service"])
    # Every replica writes: the guard of the leader and the shadow mode are not for this.
    client = Client(transport, field_manager=options["name"], clock=options["clock"])
    try:
        async with kept_certificate(client, service, calling_objects(routes), on_shown) as keeper:
            yield keeper
    except UnusableSecret as error:
        raise ServeError(f"cannot serve webhooks on {options['webhooks']}: {error}") from None


def warn_unserved(controller: Controller[Any], served: Iterable[Controller[Any]]) -> None:
    """Log the webhooks of a controller that is added while those of the others are served."""
    served = list(served)
    names = {route.name for route in routes_of(served)}
    if missing := [route.name for route in routes_of([*served, controller]) if route.name not in names]:
        _log.warning(
            "webhooks of a controller that is added to a running manager are not served", webhooks=missing
        )


def check_webhooks(options: ManagerOptions, controllers: Iterable[Controller[Any]]) -> None:
    """Raises ConfigurationError for options that do not fit together, or for names that are not unique."""
    try:
        routes = routes_of(controllers)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(str(error)) from None
    if not (options["webhooks"] and routes):
        return
    own, folder = options["webhook_service"], options["webhook_certificates"]
    if not own and not folder:
        raise ConfigurationError(
            "webhooks are served over TLS alone: give webhook_certificates, the folder of tls.crt and "
            "tls.key, or webhook_service for certificates of the operator's own"
        )
    if own and folder:
        raise ConfigurationError(
            "webhook_service makes certificates, and webhook_certificates has them: give one"
        )
    if own and options["dry_run"]:
        raise ConfigurationError(
            "webhook_service writes certificates into the cluster, and dry_run writes nothing: "
            "leave out webhooks for the shadow mode"
        )
    if own and find_spec("cryptography") is None:
        raise ConfigurationError(
            "webhook_service needs the library cryptography: pip install 'reconcile-runtime[webhooks]'"
        )
