"""What a run is remembered by, without values of Secrets: an author may name objects and fields by them."""

from collections.abc import Sequence
from typing import Final

import msgspec

from informers import Key
from reconcile.client.redaction import is_sensitive, replaced
from reconcile.controller.run_result import RunResult
from reconcile.runs.diagnostics import observing
from reconcile.runs.run_record import ObjectRef
from reconcile.runs.run_request import Cause
from reconcile.storms.storm_report import describe_write

WRITES_KEPT: Final = 32
"""Of one run."""


@observing(lambda *_: ())
def writes_in_words(outcome: RunResult) -> tuple[str, ...]:
    """The first writes of a run."""
    if outcome.record is None or not outcome.record.writes:
        return ()
    # Their fields have any characters, so all forms of the values are looked for: once, as it takes long.
    forms = outcome.secrets.forms() if outcome.secretive else ()
    return tuple(replaced(describe_write(write), forms) for write in outcome.record.writes[:WRITES_KEPT])


@observing(lambda *_: ((), ()))
def causes_and_reads(outcome: RunResult) -> tuple[tuple[Cause, ...], tuple[ObjectRef, ...]]:
    """What woke a run, and what it read. A value of a Secret in the name of an object is replaced."""
    record = outcome.record
    if record is None:
        return (), ()
    if not outcome.secretive:
        return tuple(record.causes), record.reads
    values = sorted(outcome.secrets.plain(), key=len, reverse=True)
    return (
        tuple(_clean_cause(cause, values) for cause in record.causes),
        # Those of Secrets stay: by them their values are found, and hidden, in what is shown later.
        tuple(
            read if is_sensitive(read[0]) else (read[0], _clean_key(read[1], values)) for read in record.reads
        ),
    )


def _clean_cause(cause: Cause, values: Sequence[str]) -> Cause:
    key, paths = _clean_key(cause.key, values), tuple(replaced(path, values) for path in cause.paths)
    if (key, paths) == (cause.key, cause.paths):
        return cause
    return msgspec.structs.replace(cause, key=key, paths=paths)


def _clean_key(key: Key | None, values: Sequence[str]) -> Key | None:
    return None if key is None else Key(*(replaced(part, values) for part in key))
