"""A status says when it was looked at last, and its own write makes it look again."""

from attrs import frozen

from reconcile import Context, Controller, Object, ObjectMeta, resource
from reconcile.testing import Apply, Scenario


@frozen
class CheckSpec:
    target: str = ""


@frozen
class CheckStatus:
    target: str = ""
    last_checked: str = ""


@resource("kit.example.com/v1")
class Check(Object):
    spec: CheckSpec = CheckSpec()
    status: CheckStatus = CheckStatus()


async def keep(ctx: Context[Check]) -> None:
    check = ctx.object
    ctx.status(target=check.spec.target, last_checked=ctx.clock.now().isoformat())


scenario = Scenario(
    controllers=lambda: Controller(Check, keep, wakes=lambda old, new: True),
    steps=[Apply(Check(metadata=ObjectMeta("check"), spec=CheckSpec("shop")))],
    limit_seconds=60,
)
