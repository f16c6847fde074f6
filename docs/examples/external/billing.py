"""The operator's interface to a billing system: your HTTP client implements it."""

from typing import Protocol

from attrs import frozen


@frozen
class Bill:
    """A customer's account in the billing system."""

    number: str
    plan: str


class BillingFailed(Exception):
    """The billing system did not answer, or refused: a timeout, a 503, a plan that it does not know."""


class Billing(Protocol):
    """Each may raise BillingFailed. `reference` is ours: a billing system stores it with its own number."""

    async def find(self, reference: str) -> Bill | None: ...
    async def open(self, reference: str, plan: str) -> Bill: ...
    async def change(self, number: str, plan: str) -> Bill: ...
    async def close(self, number: str) -> None: ...
