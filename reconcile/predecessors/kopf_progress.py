"""How far the handlers of a kopf operator are with an object, by the records that kopf keeps on it.

kopf writes a record for each handler of the change under way, and removes them all when the last of these
handlers has succeeded or failed for good. A record is JSON in an annotation; older versions wrote it to
`status.kopf.progress` as well (kopf 1.45, `_cogs/configs/progress.py`, `_core/actions/progression.py`).
"""

from collections.abc import Mapping
from typing import Literal

import msgspec
from attrs import field, frozen

RECORD_BYTES = 256 * 1024
"""The annotations of an object have no more in all (Kubernetes' limit): a longer text is not read."""
SUBREFS = 1_000
"""How many names of sub-handlers are kept of one record."""

Place = Literal["annotation", "status"]


class _Record(msgspec.Struct):
    started: str | None = None
    stopped: str | None = None
    delayed: str | None = None
    purpose: str | None = None
    retries: int | None = None
    success: bool | None = None
    failure: bool | None = None
    message: str | None = None
    subrefs: list[str] | None = None


_KNOWN_FIELDS = frozenset(_Record.__struct_fields__)
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_record = msgspec.json.Decoder(_Record).decode


@frozen
class HandlerProgress:
    """How far one handler is.

    `handler` is its id as the name of the annotation has it: `/` of sub-handlers and fields is `.` there,
    and a long id ends in a hash. Times are kopf's texts (ISO 8601, UTC; older versions wrote no offset).
    `purpose` is `create`, `update`, `resume` or `delete`; empty in records of old versions. `message` is
    the text of the handler's last error, which may quote anything: it is not for logs.
    """

    handler: str
    place: Place = "annotation"
    started: str = ""
    stopped: str = ""
    delayed: str = ""
    purpose: str = ""
    retries: int = 0
    success: bool = False
    failure: bool = False
    message: str = field(default="", repr=False)
    subrefs: tuple[str, ...] = ()

    @property
    def unfinished(self) -> bool:
        """Whether it has neither succeeded nor failed for good: kopf would call it, maybe again."""
        return not (self.success or self.failure)


def progress_in_annotation(handler: str, value: object) -> HandlerProgress | None:
    """The record in the value of an annotation; None if there is none. Any value may be given."""
    if not isinstance(value, str) or len(value) > RECORD_BYTES or not value.lstrip().startswith("{"):
        return None
    try:
        names = _decode_fields(value)
        record = _decode_record(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    # A record has the time of its start and nothing foreign: an annotation of an author that happens to be
    # JSON is left alone.
    if not record.started or not names.keys() <= _KNOWN_FIELDS:
        return None
    return _progress(handler, record, "annotation")


def progress_in_status(records: object) -> tuple[HandlerProgress, ...]:
    """The records in `status.kopf.progress`. Any value may be given; anything but a record is left out."""
    if not isinstance(records, Mapping):
        return ()
    return tuple(
        _progress(handler, record, "status")
        for handler, value in records.items()
        if isinstance(handler, str) and (record := _as_record(value)) is not None and record.started
    )


def _as_record(value: object) -> _Record | None:
    try:
        return msgspec.convert(value, _Record)
    except (msgspec.ValidationError, RecursionError):
        return None


def _progress(handler: str, record: _Record, place: Place) -> HandlerProgress:
    return HandlerProgress(
        handler=handler,
        place=place,
        started=record.started or "",
        stopped=record.stopped or "",
        delayed=record.delayed or "",
        purpose=record.purpose or "",
        retries=record.retries or 0,
        success=bool(record.success),
        failure=bool(record.failure),
        message=record.message or "",
        subrefs=tuple((record.subrefs or ())[:SUBREFS]),
    )
