"""An operator with webhooks is healthy as its manifests install it; without pods its fault is found."""

import base64
import datetime
from typing import Any

import msgspec
import pytest

from reconcile import Context, Controller
from reconcile.doctor.declared import declared_by
from reconcile.doctor.objects import Endpoint, EndpointSlice, Service, WebhookConfiguration
from reconcile.doctor.rights import Access, Bound, check_rights, declared_grants
from reconcile.doctor.webhooks import Backend, calls_of, check_webhooks
from reconcile.manager.option_list import complete_options
from reconcile.shipping.documents import Document
from reconcile.shipping.installation import Installation, arguments_of, documents_of
from reconcile.webhooks import Admission
from reconcile.webhooks.certificate_authority import new_authority
from reconcile.webhooks.routes import routes_of
from tests.shipping.shops import Store

NOW = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)


async def keep(ctx: Context[Store]) -> None: ...


def complete(store: Store, request: Any) -> Store:
    return store


CONTROLLERS = (Controller(Store, keep, admission=[Admission(Store, defaults=complete)]),)
OPERATOR = Installation(
    "trade", "trade", "trade-system", "trade:1", ("trade",), CONTROLLERS, routes=routes_of(CONTROLLERS)
)
DECLARED = declared_by(
    "trade", "trade-system", "trade", CONTROLLERS, complete_options({}), arguments_of(OPERATOR)
)


def made(*kinds: str) -> list[Document]:
    files = documents_of(OPERATOR, [])
    return [one for documents in files.values() for one in documents if one["kind"] in kinds]


def test_its_rights_are_those_that_the_code_declares() -> None:
    granted = {
        Bound(f"{role['kind']} {role['metadata']['name']}", ""): declared_grants([role])
        for role in made("Role", "ClusterRole")
    }
    assert len(granted) == 4
    assert [*check_rights(DECLARED, Access(granted))] == []


@pytest.mark.parametrize("ready", [True, False])
def test_its_webhooks_are_answered_by_its_pods(ready: bool) -> None:
    (configuration,) = made("MutatingWebhookConfiguration")
    (service,) = made("Service")
    bundle = base64.b64encode(new_authority(NOW).certificate.encode()).decode()
    for hook in configuration["webhooks"]:
        hook["clientConfig"]["caBundle"] = bundle
    calls = calls_of(DECLARED, [], [msgspec.convert(configuration, WebhookConfiguration)], [])
    slices = [EndpointSlice(endpoints=[Endpoint()])] if ready else []
    backend = Backend(msgspec.convert(service, Service), slices)
    place = ("trade-system", "trade-webhooks")
    found = [one.what for one in check_webhooks(calls, {place: backend}, NOW)]
    assert len(calls) == 1
    assert found == (
        []
        if ready
        else ["calls the Service trade-system/trade-webhooks, which has no ready pod: writes are refused"]
    )
