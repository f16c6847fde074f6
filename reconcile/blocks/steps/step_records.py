"""The record of a step in a status, and what follows from it: pure functions."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from attrs import evolve, frozen

from reconcile.models import Schema, unstructure

StepState: TypeAlias = Literal[
    "Running", "Waiting", "Failing", "Failed", "Unknown", "Done", "Again", "Undoing"
]
"""How a step is; see `StepStatus`."""
Interrupted: TypeAlias = Literal["repeat", "hold"]
Due: TypeAlias = Literal["done", "begin", "continue", "failed", "unknown"]

MOST_STEPS = 100
"""Records in one status. Those of steps that the code does not have go first."""
MESSAGE_CHARACTERS = 1000
VALUE_CHARACTERS = 2000


@frozen
class StepStatus:
    """The record of one step: the progress of its present round.

    A round is one decision to carry the step out: the first, one for another value of `once_for`, one after a
    failure for good, one that a person asked for. `state`: Running (it has begun, and its end is not
    recorded), Waiting (it asked for another run), Failing (it is tried again), Failed (for good, for
    `generation`), Unknown (it was interrupted, and must not be repeated), Done, Undoing, or Again, which a
    person sets to have it carried out once more. `value` is that of `once_for` for the round, as JSON, and
    `before` the one for which it was last carried out before. `since` is when the round began.
    """

    name: str
    state: StepState = "Running"
    round: Annotated[int, Schema(minimum=1)] = 1
    since: datetime | None = None
    message: str = ""
    value: str = ""
    before: str = ""
    generation: int | None = None


def due(record: StepStatus | None, value: str, generation: int, interrupted: Interrupted) -> Due:
    """What a step's record means for the present `value` and `generation` of its object."""
    if record is None or record.state == "Again":
        return "begin"
    if interrupted == "hold" and record.state in ("Running", "Unknown"):
        return "unknown"  # even for another value: what became of the earlier one is open
    if record.value != value:
        return "begin"
    if record.state == "Failed":
        return "failed" if record.generation == generation else "begin"
    return "done" if record.state == "Done" else "continue"


def begun(name: str, record: StepStatus | None, value: str, generation: int, now: datetime) -> StepStatus:
    """The record of a new round, which begins `now`."""
    if record is None:
        return StepStatus(name, since=now, value=value, generation=generation)
    before = record.value if record.state == "Done" else record.before
    return StepStatus(
        name, round=record.round + 1, since=now, value=value, before=before, generation=generation
    )


def with_record(records: Iterable[StepStatus], record: StepStatus) -> tuple[StepStatus, ...]:
    """The records with one of them replaced, or added at the end."""
    kept = tuple(records)
    if all(one.name != record.name for one in kept):
        return (*kept, record)
    return tuple(record if one.name == record.name else one for one in kept)


def bounded(records: Sequence[StepStatus], names: Sequence[str]) -> tuple[StepStatus, ...]:
    """The records in the order of `names`; those of other names behind, as long as there is room."""
    known = {one.name: one for one in records}
    ours = [known[name] for name in names if name in known]
    others = [one for one in known.values() if one.name not in names]
    return (*ours, *others[: max(0, MOST_STEPS - len(ours))])


def ended(
    record: StepStatus, state: StepState, message: str = "", generation: int | None = None
) -> StepStatus:
    """The record after its step was called."""
    kept = record.generation if generation is None else generation
    return evolve(record, state=state, message=message[:MESSAGE_CHARACTERS], generation=kept)


def value_text(value: Any) -> str:
    """A value of `once_for` as it is recorded. Raises ValueError for one that is too long."""
    text = json.dumps(unstructure(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if len(text) > VALUE_CHARACTERS:
        raise ValueError(f"of {len(text)} characters, and at most {VALUE_CHARACTERS} are kept")
    return text


def read_value(text: str) -> Any:
    """A recorded value; None for no value, or for one that cannot be read."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
