"""What `reconcile adopt kopf read` says: each handler, what it becomes, and what needs thought."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

from attrs import frozen

from reconcile.adoption.kopf_counterparts import Counterpart, plain
from reconcile.adoption.kopf_handlers import (
    KopfHandler,
    KopfOperator,
    Place,
    ResourceSelector,
    Setting,
    shown,
)
from reconcile.adoption.kopf_table import PAGE, counterparts

WIDTH: Final = 110
OBVIOUS: Final = frozenset({"interval", "operations"})
"""Arguments of which the row of the decorator says enough."""
NOTED_KEYWORDS: Final = (
    "memo",
    "old",
    "diff",
    "retry",
    "started",
    "runtime",
    "event",
    "type",
    "reason",
)


@frozen
class Note:
    """Something about a handler that needs thought: what it is, and the row of the table that answers it."""

    what: str
    row: Counterpart

    def __str__(self) -> str:
        more = f" ({plain(self.row.instead)})" if self.row.here and self.row.instead else ""
        return f"{self.what} -> {self.row.words}{more}"


def row_of(handler: KopfHandler) -> Counterpart:
    """The row of a handler's decorator."""
    return counterparts()[f"@{handler.decorator}"]


def row_of_setting(setting: Setting) -> Counterpart:
    """The row of a setting, or that of its section."""
    section = setting.name.partition(".")[0]
    return counterparts().get(setting.name) or counterparts()[f"{section}.*"]


def notes_of(handler: KopfHandler) -> Sequence[Note]:
    """What of a handler needs thought, most of it known only from its source."""
    rows = counterparts()
    notes = [
        Note(f"{name}={shown(value)}", rows[f"{name}="])
        for name, value in handler.arguments.items()
        if name not in OBVIOUS
    ]
    return [*notes, *_notes_of_source(handler)]


def _notes_of_source(handler: KopfHandler) -> Iterator[Note]:
    rows, facts = counterparts(), handler.facts
    if facts is None:
        return
    if facts.returns_value and handler.selector is not None and handler.decorator != "kopf.index":
        yield Note(f"returns a value, which kopf keeps in status.{handler.id}", rows["status.<handler>"])
    if facts.remembers:
        yield Note(f"changes {', '.join(facts.remembers)} of its module", rows["module state"])
    if facts.status_fields:
        yield Note(f"writes status.{', status.'.join(facts.status_fields)} by patch", rows["patch"])
    if facts.patches:
        metadata = all(path.startswith("metadata") for path in facts.patches)
        row = rows["patch" if metadata else "writes to its own spec"]
        yield Note(f"writes {', '.join(facts.patches)} by patch", row)
    elif "patch" in facts.keywords and not facts.status_fields:
        yield Note("takes patch", rows["patch"])
    if facts.sleeps and handler.decorator != "kopf.daemon":
        yield Note("sleeps", rows["waiting"])
    for keyword in NOTED_KEYWORDS:
        if keyword in facts.keywords:
            yield Note(f"takes {keyword}", rows[keyword])
    for name in facts.names:
        if name in rows:
            yield Note(f"uses {name}", rows[name])


def as_json(operator: KopfOperator) -> dict[str, Any]:
    """The same as data."""
    return {
        "kopf": operator.version,
        "modules": list(operator.modules),
        "handlers": [_handler_json(handler) for handler in operator.handlers],
        "settings": [
            {
                "name": setting.name,
                "value": shown(setting.value),
                "place": setting.place,
                **_row_json(row_of_setting(setting)),
            }
            for setting in operator.settings
        ],
        "prefixes": list(operator.prefixes),
        "unread": list(operator.unread),
    }


def _handler_json(handler: KopfHandler) -> dict[str, Any]:
    facts = handler.facts
    return {
        "id": handler.id,
        "decorator": handler.decorator,
        "function": handler.place.name,
        "place": str(handler.place),
        "async": handler.place.is_async,
        "resource": None if handler.selector is None else str(handler.selector),
        "arguments": {name: shown(value) for name, value in handler.arguments.items()},
        **_row_json(row_of(handler)),
        "source": facts is not None,
        "creates": list(facts.creates) if facts else [],
        "notes": [{"what": note.what, **_row_json(note.row)} for note in notes_of(handler)],
    }


def _row_json(row: Counterpart) -> dict[str, str]:
    return {"becomes": row.words, "guide": f"{PAGE}#{row.anchor}"}


def as_text(operator: KopfOperator) -> Iterator[str]:
    """The lines that a person reads."""
    handlers = operator.handlers
    kinds = {handler.selector for handler in handlers if handler.selector is not None}
    counted = f"{_counted(len(handlers), 'handler')} for {_counted(len(kinds), 'resource')}"
    yield f"{counted}, on kopf {operator.version}"
    for resource, group in by_resource(handlers):
        yield ""
        yield "the operator itself" if resource is None else str(resource)
        for same in by_function(group):
            yield from _function_lines(same)
    if operator.settings:
        yield ""
        yield "settings, as far as the source shows them"
        for setting in operator.settings:
            yield f"  {setting.name} = {shown(setting.value)}   {setting.place}"
            yield from _wrapped(f"becomes {row_of_setting(setting).words}")
    if operator.unread:
        yield ""
        yield f"source not read: {', '.join(operator.unread)}"
    yield ""
    yield f"more about each line: {PAGE}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def by_resource(
    handlers: Sequence[KopfHandler],
) -> Sequence[tuple[ResourceSelector | None, Sequence[KopfHandler]]]:
    """Handlers by resource, the one with most handlers first; those of the operator itself last."""
    groups: dict[ResourceSelector | None, list[KopfHandler]] = {}
    for handler in handlers:
        groups.setdefault(handler.selector, []).append(handler)
    return sorted(groups.items(), key=lambda item: (item[0] is None, -len(item[1])))


def by_function(handlers: Sequence[KopfHandler]) -> Sequence[Sequence[KopfHandler]]:
    """Handlers by the function that they call, which may have several decorators."""
    groups: dict[Place, list[KopfHandler]] = {}
    for handler in handlers:
        groups.setdefault(handler.place, []).append(handler)
    return list(groups.values())


def _function_lines(handlers: Sequence[KopfHandler]) -> Iterator[str]:
    """A function: its decorators, what each becomes, and what needs thought, once."""
    first = handlers[0]
    yield f"  {first.place.name}   {first.place}".rstrip()
    for handler in handlers:
        row = row_of(handler)
        more = f". {plain(row.instead)}" if row.here and row.instead else ""
        yield from _wrapped(f"{handler} -> {row.words}{more}")
    for note in dict.fromkeys(str(note) for handler in handlers for note in notes_of(handler)):
        yield from _wrapped(f"! {note}")
    if first.facts is None:
        yield from _wrapped("! its source is not available, so what it returns and uses is not known")
    elif first.facts.creates:
        kinds = ", ".join(first.facts.creates)
        yield from _wrapped(f"! writes {kinds} -> ctx.apply; for its children owns= too")


def _wrapped(text: str) -> Sequence[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent="    ", subsequent_indent="      ", break_on_hyphens=False
    )
