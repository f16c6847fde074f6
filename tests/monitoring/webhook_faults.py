"""Planned faults of webhooks, certificates and definitions: their counters are told, as no socket is open."""

import anyio

from tests.monitoring.faults import MINUTE, begin, fires, toys
from tests.monitoring.simulated_operator import Operator


async def call_webhook(op: Operator, minutes: float, result: str, seconds: float) -> None:
    """Calls of the webhook, one a second, as the server that answers them counts them."""
    metrics = op.replicas["pod-1"].manager._metrics
    assert metrics is not None
    for _ in range(int(minutes * 60)):
        await anyio.sleep(1)
        metrics.webhook_called("defaults.toys.example.com", 200, result, seconds)


@fires("ReconcileWebhookErrors", lasting=["ReconcileAdmissionBudget"], webhook="defaults.toys.example.com")
async def the_functions_of_a_webhook_fail(op: Operator) -> None:
    await begin(op, every=60)
    await call_webhook(op, 10, "allowed", 0.01)
    await call_webhook(op, 20, "failed", 0.01)
    await call_webhook(op, 40, "allowed", 0.01)


@fires("ReconcileWebhookSlow", lasting=["ReconcileAdmissionBudget"], webhook="defaults.toys.example.com")
async def the_functions_of_a_webhook_are_slow(op: Operator) -> None:
    await begin(op, every=60)
    await call_webhook(op, 10, "allowed", 0.01)
    await call_webhook(op, 20, "allowed", 0.4)
    await call_webhook(op, 40, "allowed", 0.01)


@fires("ReconcileCertificateExpires", "ReconcileCertificateExpired")
async def the_certificate_of_the_webhooks_is_not_renewed(op: Operator) -> None:
    days = 7.01
    manager = await op.start(toys())
    assert manager._metrics is not None
    manager._metrics.webhook_certificate(lambda: days)
    for _ in range(40):
        await anyio.sleep(MINUTE)
        days -= 0.17
    days = 90.0
    await anyio.sleep(5 * MINUTE)


@fires("ReconcileCertificateUnreadable")
async def the_files_of_the_certificate_are_broken(op: Operator) -> None:
    manager = await op.start(toys())
    for minute in range(60):
        await anyio.sleep(MINUTE)
        assert manager._metrics is not None
        manager._metrics.certificate_read(not 5 < minute < 25)


@fires("ReconcileDefinitionStuck", definition="toys.toys.example.com")
async def an_object_cannot_be_rewritten(op: Operator) -> None:
    manager = await op.start(toys())
    assert manager._metrics is not None
    manager._metrics.objects_rewritten("toys.toys.example.com", 4, 1)
    manager._metrics.definition_finished("toys.toys.example.com", False)
    await anyio.sleep(65 * MINUTE)
    manager._metrics.objects_rewritten("toys.toys.example.com", 5, 0)
    manager._metrics.definition_finished("toys.toys.example.com", True)
    await anyio.sleep(5 * MINUTE)
