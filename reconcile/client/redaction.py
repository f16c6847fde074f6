"""Keeps the values of Secrets out of errors, tracebacks, log lines and Events of runs that have read them.

So are those of fields that a class declares secret, in the kinds that a controller names.
"""

import base64
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from traceback import format_exception
from typing import Any, TypeAlias
from urllib.parse import quote, quote_plus

import msgspec
from attrs import define, field
from structlog.typing import EventDict

from informers import APIResource, Snapshot
from informers.apimachinery.json_pointers import pointer_steps
from reconcile.models.secret_fields import fields_at, parts_at
from reconcile.predecessors.kopf_names import LAST_HANDLED
from reconcile.runs.run_failures import error_text
from reconcile.runs.write_events import Sent, WriteObserver

SHORTEST = 4
"""Shorter values (in characters) are not replaced: they occur in ordinary words."""

SHORTEST_WITHIN = 6
"""The same for parts of base64, in which short sequences occur by chance."""

LONGEST_NAME = 253
"""Characters of the name of an object."""

HIDDEN = "<secret>"


DeclaredFields: TypeAlias = Mapping[APIResource, Iterable[tuple[str, ...]]]
"""The paths of fields that classes declare secret, of kinds that have such fields."""

_COPIES = ("last-applied-configuration", LAST_HANDLED)


def is_sensitive(resource: APIResource) -> bool:
    return resource.kind == "Secret" and not resource.group


def copies_object(annotation: str) -> bool:
    """Whether an annotation has a copy of its object, as kubectl and operators on kopf keep one."""
    return annotation.rpartition("/")[2].startswith(_COPIES)


@define(eq=False)
class SecretValues(WriteObserver):
    """The secret values that one run has read or tried to write; those of Secrets are decoded when needed."""

    declared: DeclaredFields = field(factory=dict)
    _bodies: list[bytes] = field(factory=list, init=False)

    def may_be_in(self, resource: APIResource) -> bool:
        """Whether objects of a resource have values to remember."""
        return is_sensitive(resource) or resource in self.declared

    def add(self, resource: APIResource, body: bytes) -> None:
        """Remember the secret values in the JSON of an object: of a Secret, or in fields declared so."""
        if is_sensitive(resource):
            self._bodies.append(body)
        elif paths := self.declared.get(resource):
            values = declared_values(body, paths)
            if values and values not in self._bodies:
                self._bodies.append(values)

    def keep_latest(self, most: int) -> None:
        """Forget all but the `most` objects that were added last."""
        del self._bodies[:-most]

    def sent(self, sent: Sent) -> None:
        """Remember the values that a write is to set, before an error can quote them."""
        if self.may_be_in(sent.resource):
            self.add(sent.resource, msgspec.json.encode(sent.body))

    def __bool__(self) -> bool:
        return bool(self._bodies)

    @property
    def bodies(self) -> Sequence[bytes]:
        """The JSON of Secrets, and of writes of Secrets, that have the values."""
        return tuple(self._bodies)

    @property
    def size(self) -> int:
        """How many bytes are remembered."""
        return sum(map(len, self._bodies)) if self._bodies else 0

    def redact(self, text: str) -> str:
        """The text without the values, their lines, their base64, and the strings of values in JSON."""
        return replaced(text, self.forms()) if self._bodies else text

    def plain(self) -> set[str]:
        """The values as the names of objects may have them: these need no quotes, so no other form differs.

        Much faster than `forms`: a certificate has hundreds of those.
        """
        bodies = (texts_in(_contents(msgspec.json.decode(body))) for body in self._bodies)
        found = {form for body in bodies for value in body for form in _plain(value)}
        return {form for form in found if SHORTEST <= len(form) <= LONGEST_NAME}

    def forms(self) -> Sequence[str]:
        """The values in every form in which a text may have them; the longest first."""
        return sorted({form for body in self._bodies for form in forms_of(body)}, key=len, reverse=True)


class NoSecretValues(SecretValues):
    """The values of a client outside of runs: none are remembered."""

    def add(self, resource: APIResource, body: bytes) -> None:
        """Remember nothing."""


NO_SECRETS = NoSecretValues()

seen: ContextVar[SecretValues | None] = ContextVar("seen", default=None)
"""The values that the current run has read; None outside of runs."""


def declared_values(body: bytes, paths: Iterable[tuple[str, ...]]) -> bytes:
    """The texts in secret fields of an object, or of a write of it, as the JSON of a Secret; empty for none.

    Copies of the object in its annotations have them too.
    """
    try:
        found = _steps_at(body, paths) if body.lstrip().startswith(b"[") else _parts_at(body, paths)
        texts = {text: text for value in found for text in texts_in(value) if len(text) >= SHORTEST}
    except (msgspec.DecodeError, RecursionError):
        return b""
    return msgspec.json.encode({"stringData": texts}) if texts else b""


def _parts_at(body: bytes, paths: Iterable[tuple[str, ...]]) -> Iterator[Any]:
    yield from map(msgspec.json.decode, parts_at(body, paths))
    if any(name.encode() in body for name in _COPIES):
        for metadata in parts_at(body, [("metadata",)]):
            for copy in _copies_in({"metadata": msgspec.json.decode(metadata)}):
                with suppress(msgspec.DecodeError):  # a damaged copy; others may be whole
                    yield from map(msgspec.json.decode, parts_at(copy.encode(), paths))


def _steps_at(body: bytes, paths: Iterable[tuple[str, ...]]) -> Iterator[Any]:
    for step in msgspec.json.decode(body):
        if isinstance(step, dict):
            whole = _as_object(step)
            yield from (fields[name] for path in paths for fields, name in fields_at(whole, path))


def _as_object(step: Mapping[str, Any]) -> Any:
    """What a step of a JSON patch sets, as the part of the object that it sets."""
    value = step.get("value")
    try:
        names = pointer_steps(str(step.get("path", "")))
    except ValueError:
        return value  # the server refuses it
    for name in reversed(names):
        value = {name: value}
    return value


def forms_of(body: bytes) -> set[str]:
    """The values in the JSON of a Secret or of its write, in every form in which a text may have them."""
    return {value for value in _values(body) if len(value) >= SHORTEST}


def replaced(text: str, forms: Iterable[str]) -> str:
    """The text without the `forms` of secret values.

    The longest have to come first: a value that is a part of another would leave the rest of it readable.
    """
    for form in forms:
        text = text.replace(form, HIDDEN)
    return text


@contextmanager
def concealing(
    resource: APIResource, states: Iterable[Snapshot | None], declared: DeclaredFields
) -> Iterator[None]:
    """Outside of runs: hide the secret values of these objects in lines logged within."""
    values = SecretValues(declared)
    for state in states:
        if state is not None:
            values.add(resource, state.raw)
    token = seen.set(values if values else seen.get())
    try:
        yield
    finally:
        seen.reset(token)


def redacted(text: str) -> str:
    """A text without the values of Secrets that the current run has read."""
    values = seen.get()
    return text if values is None else values.redact(text)


def redact_event(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """A structlog event without the values: its text, its fields, and its error (`redacted_error`)."""
    values = seen.get()
    if not values:
        return event
    clean = {name: _clean(value, values) for name, value in event.items() if name != "exc_info"}
    if error := _error_of(event.get("exc_info")):
        clean["exc_info"] = redacted_error(error, values.redact)
    return clean


def redacted_error(error: BaseException, redact: Callable[[str], str]) -> BaseException:
    """An error of the same name with a redacted text, and the redacted traceback as a note."""
    kind = type(type(error).__name__, (Exception,), {"__module__": type(error).__module__})
    # Without frames: error reporters read their local variables, which may hold the values of Secrets.
    copy: Exception = kind(redact(error_text(error)))
    copy.add_note(redact("".join(format_exception(error))).rstrip())
    return copy


def _clean(value: Any, values: SecretValues) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return values.redact(value)
    text = repr(value)
    clean = values.redact(text)
    return value if clean == text else clean


def _error_of(given: Any) -> BaseException | None:
    if isinstance(given, BaseException):
        return given
    if isinstance(given, tuple):
        return given[1] if isinstance(given[1], BaseException) else None
    return sys.exc_info()[1] if given else None


def _values(body: bytes) -> Iterator[str]:
    for value in texts_in(_contents(msgspec.json.decode(body))):
        yield from _forms(value)


def _contents(body: Any) -> Any:
    if isinstance(body, dict):
        return [body.get("data"), body.get("stringData"), *_copied(body)]
    return [operation.get("value") for operation in body if isinstance(operation, dict)]


def _copied(body: dict[str, Any]) -> Iterator[Any]:
    """What copies of the Secret in its annotations have: values that it may not have any more."""
    for text in _copies_in(body):
        copy = _unpacked(text)
        if isinstance(copy, dict):
            yield from (copy.get("data"), copy.get("stringData"))
        else:
            yield text


def _copies_in(body: Any) -> Iterator[str]:
    metadata = body.get("metadata") if isinstance(body, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    for name, text in annotations.items() if isinstance(annotations, dict) else ():
        if isinstance(text, str) and copies_object(name):
            yield text


def _unpacked(copy: str) -> Any:
    try:
        return msgspec.json.decode(copy)
    except (msgspec.DecodeError, RecursionError):
        return None


def _forms(value: str) -> Iterator[str]:
    """A value and its lines as Python, JSON, URLs and base64 write them, and what it encodes itself."""
    if len(value) < SHORTEST:
        return
    for text in (value, *map(str.strip, value.splitlines())):
        yield text
        yield from _in_python(text)
        for as_json in {*_in_json(text)} - {text}:
            yield as_json
            yield from _in_python(as_json)  # an annotation that holds JSON, in a logged dict
        yield quote(text)
        yield quote(text, safe="")
        yield quote_plus(text)
    yield base64.b64encode(value.encode()).decode()
    yield from _within_base64(value.encode())
    for text in (*_decoded(value), *_strings(value)):
        yield from _forms(text)


def _in_python(text: str) -> Iterator[str]:
    """As `repr` writes a text, alone and within one that has quotes of both kinds, and its bytes."""
    shown = repr(text)[1:-1]
    yield shown
    if "'" in text:
        yield repr(f'{text}"')[1:-2]
    yield repr(text.encode(errors="surrogatepass"))[2:-1]


def _in_json(text: str) -> Iterator[str]:
    """As JSON has a text, and as Go's encoder writes it, which escapes what HTML could take for markup."""
    for shown in (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
        yield shown
        yield shown.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _plain(value: str) -> Iterator[str]:
    """A value and its lines, and those of what it encodes."""
    if len(value) < SHORTEST:
        return
    yield value
    yield from map(str.strip, value.splitlines())
    for text in (*_decoded(value), *_strings(value)):
        yield from _plain(text)


def _within_base64(value: bytes) -> Iterator[str]:
    """A value inside the base64 of a longer text, such as `user:password` in a Basic header.

    Three bytes become four characters, so the result depends on the offset modulo three. Characters that
    also hold bits of the neighbours are left out.
    """
    for before in range(3):
        whole = base64.b64encode(bytes(before) + value)
        first = -(-before * 4 // 3)
        last = (before + len(value)) * 4 // 3
        text = whole[first:last].decode()
        if len(text) >= SHORTEST_WITHIN:
            yield text
            yield text.replace("+", "-").replace("/", "_")


def _decoded(value: str) -> Sequence[str]:
    try:
        return [base64.b64decode(value, validate=True).decode()]
    except ValueError:
        return []


def _strings(value: str) -> Sequence[str]:
    try:
        return list(texts_in(msgspec.json.decode(value)))
    except (msgspec.DecodeError, RecursionError):
        return []


def texts_in(value: Any, *, names: bool = False) -> Iterator[str]:
    """All texts in a JSON value; with `names`, those of its fields too."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, str):
            yield inner
        elif isinstance(inner, dict):
            waiting += [*inner, *inner.values()] if names else inner.values()
        elif isinstance(inner, list):
            waiting += inner
