"""Failures as the API reports them."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen


@frozen
class FieldCause:
    """One fault of an object: a machine-readable `reason`, a `message`, and the path of the `field`.

    `field` is written like `spec.ports[0].port` or `spec.settings[key]`, and empty for the object as a whole.
    """

    reason: str
    message: str
    field: str = ""

    def to_json(self) -> dict[str, Any]:
        """The entry of `details.causes`."""
        parts = (("reason", self.reason), ("message", self.message), ("field", self.field))
        return {name: value for name, value in parts if value}


class Denied(Exception):
    """Raised by an admission to refuse a request; the text reaches the client in a 403."""


@frozen
class ApiFailure(Exception):
    """A refused request, with the contents of the Status that answers it.

    `details` has `name`, `group`, `kind`, `uid` and `retryAfterSeconds` where they apply; None leaves it out,
    and an empty one is sent. `causes` become `details.causes`. An empty `reason` is left out, as in some 500s
    of a real server.
    """

    code: int
    reason: str
    message: str
    details: dict[str, Any] | None = None
    causes: Sequence[FieldCause] = field(default=())
    warnings: Sequence[str] = field(default=(), kw_only=True)
    """What the writer is warned of beside the refusal."""
    metadata: Mapping[str, Any] = field(factory=dict, kw_only=True)
    """That of the Status, which admission webhooks may set."""

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """The whole Status object."""
        status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": dict(self.metadata)}
        status["status"] = "Failure"
        status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None or self.causes:
            status["details"] = dict(self.details or {})
        if self.causes:
            status["details"]["causes"] = [cause.to_json() for cause in self.causes]
        status["code"] = self.code
        return status
