"""Conditions of a status, one for each type (apimachinery `meta`)."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from reconcile.models import Schema
from reconcile.models.objects import CONDITION_MESSAGE, CONDITION_REASON, CONDITION_TYPE

__all__ = [
    "find_condition",
    "is_true",
    "merge_conditions",
]


class _Observation(Protocol):
    """A `Condition`, or one of a pod or a Job, which has fewer fields."""

    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...


C = TypeVar("C", bound=_Observation)


def merge_conditions(
    before: Sequence[Mapping[str, Any]],
    collected: Iterable[Mapping[str, Any]],
    now: str,
    generation: int | None,
    removed: Collection[str] = (),
) -> list[dict[str, Any]]:
    """The conditions after a run: those not `collected` stay as they are, in their places.

    A condition's lastTransitionTime moves to `now` (RFC 3339) only when its status changes, and where it had
    none; its observedGeneration becomes `generation`. Unknown members stay. Types in `removed` go, unless
    they are collected as well.
    """
    latest = {condition["type"]: condition for condition in collected}
    removed = set(removed) - latest.keys()
    merged = {c.get("type"): dict(c) for c in before if c.get("type") not in removed}
    for name, condition in latest.items():
        old = merged.get(name, {})
        changed = old.get("status") != condition["status"]
        since = now if changed or not old.get("lastTransitionTime") else old["lastTransitionTime"]
        observed = {} if generation is None else {"observedGeneration": generation}
        merged[name] = {**old, **condition, **observed, "lastTransitionTime": since}
    return list(merged.values())


def checked_condition(name: str, status: str, reason: str, message: str) -> dict[str, Any]:
    """A condition within the bounds of metav1.Condition, beyond which an API server refuses a status.

    A message that is too long is cut and ends in an ellipsis: it is often the text of an error, which a
    refused status would not show at all. Raises ValueError for another part, naming the bound.
    """
    _check("type", name, CONDITION_TYPE)
    if status not in _STATUSES:
        raise ValueError(f"condition {name}: expected True, False or Unknown as its status, got {status!r}")
    _check(f"reason of {name}", reason, CONDITION_REASON)
    return {"type": name, "status": status, "reason": reason, "message": _within_bounds(message)}


def reason_for(error: BaseException) -> str:
    """The name of an error's class, cut to a valid reason of a condition."""
    name = re.sub(r"[^A-Za-z0-9_]", "", type(error).__name__).lstrip("_0123456789")
    return name[: CONDITION_REASON.max_length] or "Error"


def _check(what: str, text: str, bounds: Schema) -> None:
    most, least = bounds.max_length or 0, bounds.min_length or 1
    if not least <= len(text) <= most:
        raise ValueError(
            f"condition {what}: expected {least} to {most} characters, got {len(text)}{_example(what)}"
        )
    if not re.fullmatch(str(bounds.pattern), text):
        raise ValueError(f"condition {what}: {text!r} does not match {bounds.pattern}{_example(what)}")


def _example(what: str) -> str:
    return ", such as Ready or example.com/Ready" if what == "type" else ", such as PodsReady"


def _within_bounds(message: str) -> str:
    most = CONDITION_MESSAGE.max_length or 0
    text = message if message.isascii() else message.encode(errors="replace").decode()  # lone surrogates
    return text if len(text) <= most else f"{text[: most - 1]}…"


_STATUSES: Final = ("True", "False", "Unknown")


def find_condition(conditions: Iterable[C], name: str) -> C | None:
    """The condition of type `name`, if any; of a custom or a built-in kind."""
    return next((condition for condition in conditions if condition.type == name), None)


def is_true(conditions: Iterable[_Observation], name: str, *, generation: int | None = None) -> bool:
    """Whether the condition of type `name` is True; absent and Unknown are not.

    With `generation`, also whether it was observed of that generation or a later one: a condition of an older
    spec proves nothing about this one.
    """
    condition = find_condition(conditions, name)
    if condition is None or condition.status != "True":
        return False
    return generation is None or (getattr(condition, "observed_generation", None) or 0) >= generation
