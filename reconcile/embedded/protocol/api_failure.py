"""The failures of the embedded server, as the API says them."""

from collections.abc import Sequence
from typing import Any

from attrs import field, frozen


@frozen
class FieldCause:
    """One fault of an object: a machine-readable `reason`, a `message`, and the path of the `field`.

    `field` is written the way the API server writes it: `spec.ports[0].port`, `spec.settings[key]`.
    A cause with an empty `field` concerns the object as a whole.
    """

    reason: str
    message: str
    field: str = ""

    def to_json(self) -> dict[str, Any]:
        """The entry of `details.causes`."""
        parts = (("reason", self.reason), ("message", self.message), ("field", self.field))
        return {name: value for name, value in parts if value}


@frozen
class ApiFailure(Exception):
    """A request that is refused, with what the answer's Status says of it.

    `details` carries `name`, `group`, `kind`, `uid` and `retryAfterSeconds` where they apply; None
    leaves it out, an empty one is sent empty, and the real server does both. `causes` become
    `details.causes`. An empty `reason` is left out, as the real server does for some of its 500s.
    """

    code: int
    reason: str
    message: str
    details: dict[str, Any] | None = None
    causes: Sequence[FieldCause] = field(default=())

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """The whole Status object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
        }
        status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None or self.causes:
            status["details"] = dict(self.details or {})
        if self.causes:
            status["details"]["causes"] = [cause.to_json() for cause in self.causes]
        status["code"] = self.code
        return status
