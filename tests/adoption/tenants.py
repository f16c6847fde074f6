"""The port of `tenants_kopf`: the same accounts and children, kept by one reconciler."""

from collections.abc import Mapping
from typing import Annotated, Any

from attrs import define, field, frozen

from reconcile import Condition, Context, Controller, Intent, Object, ObjectMeta, Predecessor, resource
from reconcile.kinds import ConfigMap
from reconcile.models import Schema

Effect = tuple[Any, ...]


@frozen
class TenantSpec:
    size: int = 1
    color: str | None = None


@frozen
class TenantStatus:
    account: str | None = None
    open_account: Annotated[Mapping[str, str], Schema(wire="open_account")] = field(factory=dict)
    """What kopf's handler returned; read for one release."""
    conditions: tuple[Condition, ...] = ()


@resource("example.com/v1")
class Tenant(Object):
    spec: TenantSpec = TenantSpec()
    status: TenantStatus = TenantStatus()


@define
class Accounts:
    """The service, as the effects of earlier operators left it. Two calls of `open` make two accounts."""

    effects: list[Effect] = field(factory=list)

    def open(self, name: str) -> str:
        self.effects.append(("open", name))
        return name

    def resize(self, name: str, size: int) -> None:
        self.effects.append(("resize", name, size))

    def close(self, name: str) -> None:
        self.effects.append(("close", name))

    def size_of(self, name: str) -> int | None:
        sizes = [effect[2] for effect in self.effects if effect[:2] == ("resize", name)]
        return sizes[-1] if sizes else None

    def opened(self, name: str) -> int:
        """How many accounts of that name are open."""
        acts = [effect[0] for effect in self.effects if effect[1] == name]
        return acts.count("open") - acts.count("close")


def tenants(
    accounts: Accounts, predecessor: Predecessor | None, *, finds: bool = False
) -> Controller[Tenant]:
    """`finds`: it looks for an account that is not in the status before it opens one."""

    async def keep(ctx: Context[Tenant]) -> None:
        tenant, known = ctx.object, ctx.object.status
        account = known.account or known.open_account.get("account")
        if account is None and finds and accounts.opened(tenant.name):
            account = tenant.name
        account = account or accounts.open(tenant.name)
        ctx.status(account=account)
        if accounts.size_of(account) != tenant.spec.size:
            accounts.resize(account, tenant.spec.size)
        data = {"size": str(tenant.spec.size), "color": tenant.spec.color}
        meta = ObjectMeta(tenant.name, labels={"tenant": tenant.name})
        await ctx.apply(Intent(ConfigMap, metadata=meta, data={k: v for k, v in data.items() if v}))

    async def leave(ctx: Context[Tenant]) -> None:
        if accounts.opened(ctx.object.name) > 0:
            accounts.close(ctx.object.name)

    return Controller(Tenant, keep, cleanup=leave, owns=[ConfigMap], predecessor=predecessor)
