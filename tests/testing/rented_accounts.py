"""Operators of accounts in a billing service: each with one mistake, and a twin without it."""

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import frozen

from reconcile import Backoff, Context, Controller, Object, ObjectMeta, Result, resource
from reconcile.errors import TerminalError
from reconcile.testing import Apply, Delete, Edit, FakeService, Scenario, ScenarioAct, ServiceAnswer
from reconcile.testing.fake_services import Operations, RateLimit, ServiceCollection


@frozen
class RentalSpec:
    plan: str = "free"


@frozen
class RentalStatus:
    number: str = ""
    message: str = ""


@resource("toys.example.com/v1")
class Rental(Object):
    spec: RentalSpec = RentalSpec()
    status: RentalStatus = RentalStatus()


@frozen
class Bill:
    """An account as the service has it."""

    reference: str
    plan: str
    number: str = ""
    state: str = "ready"
    token: str = ""


@frozen
class Line:
    """A line of an account's contract, which the client names."""

    name: str
    reference: str
    text: str = ""


BILLS = ServiceCollection(
    name="accounts",
    kind=Bill,
    id="number",
    owner=lambda bill: (Rental, bill.reference),
    identity=lambda bill: bill.reference,
    secret=("token",),
)
LATE_BILLS = ServiceCollection(
    name="accounts",
    kind=Bill,
    id="number",
    visible_after=(1.0, 20.0),
    strong_gets=True,
    owner=lambda bill: (Rental, bill.reference),
    identity=lambda bill: bill.reference,
)
SLOW_BILLS = ServiceCollection(
    name="accounts",
    kind=Bill,
    id="number",
    operations=Operations(takes=(2.0, 8.0), state="state"),
    owner=lambda bill: (Rental, bill.reference),
    identity=lambda bill: bill.reference,
)
LINES = ServiceCollection(
    name="lines",
    kind=Line,
    id="name",
    client_names=True,
    page=2,
    owner=lambda line: (Rental, line.reference),
)

Keep = Callable[[FakeService, Context[Rental]], Awaitable[Any]]


class Trouble(Exception):
    """The service refused, or an operation failed."""


def asked(answer: ServiceAnswer, *also: int) -> ServiceAnswer:
    """The answer, unless it is an error. Raises Trouble."""
    if not answer.ok and answer.status not in also:
        raise Trouble(f"{answer.status} from billing")
    return answer


def billing(*collections: ServiceCollection[Any], rate: RateLimit | None = None) -> FakeService:
    return FakeService("billing", collections or (BILLS,), rate=rate)


def scenario(
    keep: Keep,
    drop: Keep,
    *steps: ScenarioAct,
    outside: Callable[[], FakeService] = billing,
    **options: Any,
) -> Scenario:
    def controllers(service: FakeService) -> Controller[Rental]:
        async def keeping(ctx: Context[Rental]) -> Any:
            return await keep(service, ctx)

        async def dropping(ctx: Context[Rental]) -> Any:
            return await drop(service, ctx)

        backoff = Backoff(base=0.5, limit=20)
        return Controller(Rental, keeping, cleanup=dropping, name="rentals", backoff=backoff)

    return Scenario(
        controllers=controllers, outside=outside, steps=steps or STORY, quiet_seconds=60, **options
    )


WEB = Rental(metadata=ObjectMeta("web", "default"), spec=RentalSpec("pro"))
STORY: tuple[ScenarioAct, ...] = (Apply(WEB), Edit(WEB, {"spec": {"plan": "team"}}), Delete(WEB))


def reference(ctx: Context[Rental]) -> str:
    return str(ctx.object.key)


async def found(service: FakeService, ctx: Context[Rental]) -> dict[str, Any] | None:
    answer = asked(await service.call("GET", f"/accounts?reference={reference(ctx)}"))
    return next(iter(answer.body["items"]), None)


def wanted(ctx: Context[Rental]) -> dict[str, Any]:
    return {"reference": reference(ctx), "plan": ctx.object.spec.plan, "token": "hunter2-hunter2"}


async def set_plan(service: FakeService, ctx: Context[Rental], bill: dict[str, Any]) -> None:
    if bill["plan"] != ctx.object.spec.plan:
        path = f"/accounts/{bill['number']}"
        asked(await service.call("PATCH", path, {"plan": ctx.object.spec.plan}))


# --- a request that is sent again -----------------------------------------------------------------


async def by_number(service: FakeService, ctx: Context[Rental], headers: dict[str, str]) -> None:
    number = ctx.object.status.number
    if not number:
        bill = asked(await service.call("POST", "/accounts", wanted(ctx), headers=headers)).body
    else:
        bill = asked(await service.call("GET", f"/accounts/{number}")).body
    await set_plan(service, ctx, bill)
    ctx.status(number=bill["number"])


async def without_a_key(service: FakeService, ctx: Context[Rental]) -> None:
    """Wrong: a process that dies before it has written the number opens another account."""
    await by_number(service, ctx, {})


async def with_a_key(service: FakeService, ctx: Context[Rental]) -> None:
    # The same request for one object, whatever its plan is by then.
    uid = ctx.object.metadata.uid
    number = ctx.object.status.number
    if not number:
        body = {"reference": reference(ctx), "plan": "free"}
        answer = await service.call("POST", "/accounts", body, headers={"Idempotency-Key": uid})
        bill = asked(answer).body
    else:
        bill = asked(await service.call("GET", f"/accounts/{number}")).body
    await set_plan(service, ctx, bill)
    ctx.status(number=bill["number"])


async def close(service: FakeService, ctx: Context[Rental]) -> None:
    for bill in asked(await service.call("GET", f"/accounts?reference={reference(ctx)}")).body["items"]:
        asked(await service.call("DELETE", f"/accounts/{bill['number']}"), 404)


# --- an error is no proof that nothing was done ---------------------------------------------------


async def key_for_each_try(service: FakeService, ctx: Context[Rental]) -> None:
    """Wrong: takes an error for "not done", and so asks anew with another key."""
    await by_number(service, ctx, {"Idempotency-Key": ctx.clock.uuid().hex})


async def taken_for_refused(service: FakeService, ctx: Context[Rental]) -> None:
    """Wrong: a name that is taken is an error, also where its own request took it."""
    line = {"name": f"{ctx.object.name}-base", "reference": reference(ctx)}
    if not ctx.object.status.number:
        asked(await service.call("POST", "/lines", line))
    ctx.status(number=line["name"])


async def taken_by_itself(service: FakeService, ctx: Context[Rental]) -> None:
    line = {"name": f"{ctx.object.name}-base", "reference": reference(ctx)}
    if not ctx.object.status.number:
        asked(await service.call("POST", "/lines", line), 409)
    ctx.status(number=line["name"])


async def drop_lines(service: FakeService, ctx: Context[Rental]) -> None:
    for line in await all_lines(service, ctx):
        asked(await service.call("DELETE", f"/lines/{line['name']}"), 404)


# --- reads that are late --------------------------------------------------------------------------


async def looks_first(service: FakeService, ctx: Context[Rental]) -> None:
    """Wrong where lists are late: an account that was just opened is not found, and opened again."""
    number = ctx.object.status.number
    bill = None
    if number:
        bill = asked(await service.call("GET", f"/accounts/{number}")).body
    bill = bill or await found(service, ctx)
    bill = bill or asked(await service.call("POST", "/accounts", wanted(ctx))).body
    await set_plan(service, ctx, bill)
    ctx.status(number=bill["number"])


async def close_by_number(service: FakeService, ctx: Context[Rental]) -> None:
    bill = ctx.object.status.number
    if not bill:
        # The same request as before: it opens an account only if none was opened.
        body = {"reference": reference(ctx), "plan": "free"}
        headers = {"Idempotency-Key": ctx.object.metadata.uid}
        bill = asked(await service.call("POST", "/accounts", body, headers=headers)).body["number"]
    asked(await service.call("DELETE", f"/accounts/{bill}"), 404)


# --- limits ---------------------------------------------------------------------------------------


async def gives_up(service: FakeService, ctx: Context[Rental]) -> None:
    """Wrong: takes "too many requests" for an answer that stays."""
    answer = await service.call("GET", f"/accounts?reference={reference(ctx)}")
    if answer.status == 429:
        raise TerminalError("billing refuses")
    bill = next(iter(asked(answer).body["items"]), None)
    bill = bill or asked(await service.call("POST", "/accounts", wanted(ctx))).body
    await set_plan(service, ctx, bill)


async def comes_back(service: FakeService, ctx: Context[Rental]) -> Result | None:
    answer = await service.call("GET", f"/accounts?reference={reference(ctx)}")
    if answer.status == 429:
        return Result(requeue_after=float(answer.headers["retry-after"]))
    bill = next(iter(asked(answer).body["items"]), None)
    bill = bill or asked(await service.call("POST", "/accounts", wanted(ctx))).body
    await set_plan(service, ctx, bill)
    return None


# --- the end --------------------------------------------------------------------------------------


async def close_if_possible(service: FakeService, ctx: Context[Rental]) -> None:
    """Wrong: lets the object go although the service did not answer."""
    answer = await service.call("GET", f"/accounts?reference={reference(ctx)}")
    for bill in answer.body["items"] if answer.ok else ():
        await service.call("DELETE", f"/accounts/{bill['number']}")


async def close_known(service: FakeService, ctx: Context[Rental]) -> None:
    """Wrong: closes what the status names, and the process may have died before it was written."""
    if ctx.object.status.number:
        asked(await service.call("DELETE", f"/accounts/{ctx.object.status.number}"), 404)


async def writes_always(service: FakeService, ctx: Context[Rental]) -> None:
    """Wrong: sends its wish in each run, whether or not the service has it."""
    bill = await found(service, ctx)
    bill = bill or asked(await service.call("POST", "/accounts", wanted(ctx))).body
    asked(await service.call("PATCH", f"/accounts/{bill['number']}", {"plan": ctx.object.spec.plan}))


async def writes_if_needed(service: FakeService, ctx: Context[Rental]) -> None:
    bill = await found(service, ctx)
    bill = bill or asked(await service.call("POST", "/accounts", wanted(ctx))).body
    await set_plan(service, ctx, bill)


# --- batches, operations, pages -------------------------------------------------------------------


async def all_lines(service: FakeService, ctx: Context[Rental]) -> list[dict[str, Any]]:
    lines, token = [], ""
    while True:
        query = f"reference={reference(ctx)}" + (f"&page_token={token}" if token else "")
        page = asked(await service.call("GET", f"/lines?{query}")).body
        lines += page["items"]
        token = page.get("next_page_token", "")
        if not token:
            return lines


async def first_page(service: FakeService, ctx: Context[Rental]) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = asked(await service.call("GET", "/lines")).body["items"]
    return [line for line in lines if line["reference"] == reference(ctx)]


async def drop_first_page(service: FakeService, ctx: Context[Rental]) -> None:
    """Wrong: does not see the lines of the next page."""
    for line in await first_page(service, ctx):
        asked(await service.call("DELETE", f"/lines/{line['name']}"), 404)


async def batch(service: FakeService, ctx: Context[Rental]) -> list[dict[str, Any]]:
    names = [f"{ctx.object.name}-{part}" for part in ("base", "support", "tax")]
    have = {line["name"] for line in await all_lines(service, ctx)}
    items = [{"body": {"name": name, "reference": reference(ctx)}} for name in names if name not in have]
    if not items:
        return []
    results: list[dict[str, Any]] = asked(await service.call("POST", "/lines:batch", {"items": items})).body[
        "results"
    ]
    return results


async def batch_trusted(service: FakeService, ctx: Context[Rental]) -> None:
    """Wrong: takes 207 for success, and never looks again."""
    if not ctx.object.status.number:
        await batch(service, ctx)
    ctx.status(number="all")


async def batch_checked(service: FakeService, ctx: Context[Rental]) -> None:
    if not ctx.object.status.number:
        failed = [one for one in await batch(service, ctx) if one["status"] >= 400]
        if failed:
            raise Trouble(f"{len(failed)} lines are missing")
    ctx.status(number="all")


async def takes_accepted_for_done(service: FakeService, ctx: Context[Rental]) -> None:
    """Wrong: does not ask how the operation ended."""
    bill = await found(service, ctx)
    if bill is None:
        asked(await service.call("POST", "/accounts", {"reference": reference(ctx), "plan": "pro"}))


async def waits_for_the_operation(service: FakeService, ctx: Context[Rental]) -> Result | None:
    bill = await found(service, ctx)
    if bill is None:
        asked(await service.call("POST", "/accounts", {"reference": reference(ctx), "plan": "pro"}))
        return Result(requeue_after=2)
    if bill["state"] == "failed":
        asked(await service.call("PATCH", f"/accounts/{bill['number']}", {"plan": "pro"}))
    return None if bill["state"] == "ready" else Result(requeue_after=2)


async def close_and_wait(service: FakeService, ctx: Context[Rental]) -> Result | None:
    bill = await found(service, ctx)
    if bill is None:
        return None
    if bill["state"] in ("ready", "failed"):
        asked(await service.call("DELETE", f"/accounts/{bill['number']}"), 404, 409)
    return Result(requeue_after=2)
