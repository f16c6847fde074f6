"""The webhooks of a manager: with which certificate they are served, and what is wrong with the options."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from informers import get_logger
from reconcile.controller.declaration import Controller
from reconcile.manager.option_list import ConfigurationError, ManagerOptions
from reconcile.ops.certificate_rotation import NoCertificate, rotating
from reconcile.ops.serving_addresses import ServeError, parse_address
from reconcile.webhooks.routes import routes_of
from reconcile.webhooks.server import Call, ServingCertificate, serving_webhooks

if TYPE_CHECKING:
    from reconcile.ops.metrics import Metrics

_log = get_logger("reconcile.webhooks")


@asynccontextmanager
async def webhooks_served(
    options: ManagerOptions,
    controllers: Iterable[Controller[Any]],
    metrics: "Metrics | None" = None,
) -> AsyncIterator[str]:
    """Serve while inside; yields the address, empty where webhooks are off. Raises ServeError."""
    routes = routes_of(controllers)
    if not (options["webhooks"] and routes):
        if routes and not options["embedded"]:
            names = [route.name for route in routes]
            _log.warning("webhooks are declared and not served: set webhooks=", webhooks=names)
        if options["webhooks"]:
            _log.warning("no webhooks are served: no controller has admission= or versions to convert")
        yield ""
        return
    async with (
        _certificate(options) as certificate,
        serving_webhooks(parse_address(options["webhooks"]), routes, certificate, _counted(metrics)) as bound,
    ):
        yield str(bound)


def _counted(metrics: "Metrics | None") -> Callable[[Call], None]:
    if metrics is None:
        return lambda call: None
    return lambda call: metrics.webhook_called(call.webhook, call.status, call.result, call.seconds)


@asynccontextmanager
async def _certificate(options: ManagerOptions) -> AsyncIterator[ServingCertificate]:
    try:
        async with rotating(Path(options["webhook_certificates"])) as certificate:
            yield certificate
    except NoCertificate as error:
        raise ServeError(f"cannot serve webhooks on {options['webhooks']}: {error}") from None


def check_webhooks(options: ManagerOptions, controllers: Iterable[Controller[Any]]) -> None:
    """Raises ConfigurationError for options that do not fit together, or for names that are not unique."""
    try:
        routes = routes_of(controllers)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(str(error)) from None
    if options["webhooks"] and routes and not options["webhook_certificates"]:
        raise ConfigurationError(
            "webhooks are served over TLS alone: give webhook_certificates, the folder of tls.crt and tls.key"
        )
