"""The failures of the embedded server, as the API says them."""

from collections.abc import Sequence
from typing import Any

from attrs import field, frozen


@frozen
class FieldCause:
    """One fault of an object: the machine-readable `reason`, the `message`, and the `field` path.

    `field` is written the way the API server writes it: `spec.ports[0].port`, `spec.settings[key]`.
    A cause with an empty `field` concerns the object as a whole.
    """

    reason: str
    message: str
    field: str = ""

    def to_json(self) -> dict[str, Any]:
        """The entry of `details.causes`."""
        return {k: v for k, v in (("reason", self.reason), ("message", self.message), ("field", self.field)) if v}


@frozen
class Failure(Exception):
    """A request that is refused, with what the answer's Status says of it.

    `details` carries `name`, `group`, `kind`, `uid` and `retryAfterSeconds` where they apply;
    `causes` become `details.causes`. An empty `reason` is left out, as the real server does for
    some of its 500s.
    """

    code: int
    reason: str
    message: str
    details: dict[str, Any] = field(factory=dict)
    causes: Sequence[FieldCause] = ()

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """The whole Status object."""
        details = dict(self.details)
        if self.causes:
            details["causes"] = [cause.to_json() for cause in self.causes]
        status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if details:
            status["details"] = details
        status["code"] = self.code
        return status
