"""An operator for accounts in a billing system: opened, corrected by a poll, closed at the end."""

from attrs import frozen
from billing import Billing, BillingFailed

from reconcile import Backoff, Condition, Context, Controller, Object, resource

POLL = 300.0


@frozen
class AccountSpec:
    plan: str = "free"


@frozen
class AccountStatus:
    number: str = ""
    conditions: tuple[Condition, ...] = ()


@resource("example.com/v1", columns={"Plan": ".spec.plan", "Number": ".status.number"})
class Account(Object):
    spec: AccountSpec = AccountSpec()
    status: AccountStatus = AccountStatus()


def accounts(billing: Billing) -> Controller[Account]:
    async def keep(ctx: Context[Account]) -> None:
        plan, reference = ctx.object.spec.plan, str(ctx.object.key)
        with ctx.false_on_failure("Synced", BillingFailed):
            bill = await billing.find(reference) or await billing.open(reference, plan)
            if bill.plan != plan:
                ctx.event("PlanChanged", f"from {bill.plan} to {plan}")
                bill = await billing.change(bill.number, plan)
        ctx.status(number=bill.number)
        ctx.condition("Synced", True, reason="AsWanted")

    async def drop(ctx: Context[Account]) -> None:
        with ctx.false_on_failure("Synced", BillingFailed):
            if bill := await billing.find(str(ctx.object.key)):
                await billing.close(bill.number)

    return Controller(Account, keep, cleanup=drop, every=POLL, backoff=Backoff(base=5, limit=POLL))
