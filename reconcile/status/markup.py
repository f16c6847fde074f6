"""HTML as values that cannot be written without being escaped: texts in it come from objects of anybody."""

import html
import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from attrs import frozen

LONGEST_TEXT: Final = 4000
"""Characters of one text; the rest is cut."""

_EMPTY_TAGS: Final = frozenset({"meta", "br"})
_odd: Final = re.compile(
    # Control characters but tab and line feed, the marks that turn the direction of the text around them,
    # what is not seen or ends a line in some programs only, and halves of surrogate pairs.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


@frozen
class Markup:
    """Markup that is complete and safe."""

    text: str


Child: TypeAlias = "Markup | str | Iterable[Child] | None"


def element(tag: str, /, *children: Child, **attributes: str | None) -> Markup:
    """An element; texts are escaped. `class_` and `data_x` are `class` and `data-x`. None is nothing."""
    start = f"<{tag}{_attributes(attributes)}>"
    if tag in _EMPTY_TAGS:
        return Markup(start)
    return Markup(f"{start}{''.join(_parts(children))}</{tag}>")


def verbatim(name: str, text: str) -> Markup:
    """A `style` or `script` of our own. Raises ValueError for a text that would end it."""
    if "</" in text or "<!--" in text:
        raise ValueError(f"a text with </ cannot stand in a {name} element")
    return Markup(f"<{name}>{text}</{name}>")


def plain(text: str) -> str:
    """A text as it is shown: cut, and with characters by their numbers that would mislead who reads it."""
    text = text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
    return text if text.isascii() and text.isprintable() else _odd.sub(_by_number, text)


def _by_number(found: "re.Match[str]") -> str:
    return f"⟨U+{ord(found[0]):04X}⟩"


def _parts(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if isinstance(child, Markup):
            yield child.text
        elif isinstance(child, str):
            yield html.escape(plain(child))
        elif child is not None:
            yield from _parts(child)


def _attributes(values: Mapping[str, str | None]) -> str:
    shown = ((name.removesuffix("_").replace("_", "-"), value) for name, value in values.items())
    return "".join(f' {name}="{html.escape(plain(value))}"' for name, value in shown if value is not None)
