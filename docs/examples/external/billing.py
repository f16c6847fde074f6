"""What the operator asks of a billing system: the client of yours, over HTTP, is one of these."""

from typing import Protocol

from attrs import frozen


@frozen
class Bill:
    """A customer's account, as the billing system has it."""

    number: str
    plan: str


class BillingFailed(Exception):
    """The billing system did not answer, or refused: a timeout, a 503, a plan that it does not know."""


class Billing(Protocol):
    """Each may raise BillingFailed. `reference` is ours: a billing system keeps it beside its own number."""

    async def find(self, reference: str) -> Bill | None: ...
    async def open(self, reference: str, plan: str) -> Bill: ...
    async def change(self, number: str, plan: str) -> Bill: ...
    async def close(self, number: str) -> None: ...
