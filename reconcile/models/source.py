"""Python source as text, laid out as by a formatter."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final

from attrs import frozen

WIDTH: Final = 110
_INDENT: Final = "    "


@frozen
class Call:
    """A call, or with other `brackets` a display; an entry is (`name=` or nothing, argument)."""

    function: str
    entries: Sequence[tuple[str, "Code"]] = ()
    brackets: str = "()"

    @classmethod
    def of(cls, function: str, keywords: Mapping[str, "Code"], first: str = "") -> "Call":
        given = [(f"{word}=", value) for word, value in keywords.items()]
        return cls(function, [("", first), *given] if first else given)

    def __str__(self) -> str:
        inside = ", ".join(f"{before}{value}" for before, value in self.entries)
        alone = "," if self._is_tuple and len(self.entries) == 1 else ""
        return f"{self.function}{self.brackets[0]}{inside}{alone}{self.brackets[1]}"

    @property
    def _is_tuple(self) -> bool:
        return not self.function and self.brackets == "()"


Code = str | Call


@frozen
class FieldSource:
    name: str
    annotation: Code
    value: str | None
    description: str


@frozen
class ClassSource:
    """A class to be written; the kinds come last in their module."""

    name: str
    description: str
    fields: Sequence[FieldSource]
    decorator: Code
    base: str = ""
    notes: Sequence[str] = ()


def literal(value: Any) -> str:
    """A JSON value, or a tuple of them, as Python source with double quotes."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple):
        inner = ", ".join(map(literal, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        return repr(value)
    raise ValueError(f"{value!r} is not a value of JSON")


def _quoted(text: str) -> str:
    if "\\" in text and '"' not in text and not text.endswith("\\") and text.isprintable():
        return f'r"{text}"'
    if not text.isprintable() or '"' in text:
        return repr(text)
    return '"' + text.replace("\\", "\\\\") + '"'


def texts(classes: Sequence[ClassSource], title: str) -> str:
    """The source of a module with those classes and the necessary imports."""
    body = "\n\n\n".join(_class(one) for one in classes)
    long = any(len(line) > WIDTH for line in body.splitlines())
    head = f"# ruff: noqa: E501\n{_title(title)}" if long else _title(title)
    return f"{head}\n\n{_imports(body)}\n\n\n{body}\n"


def _title(title: str) -> str:
    return f'"""{_escaped(title)}"""'


def _escaped(text: str) -> str:
    """Make any text safe within a docstring."""
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text)


def _imports(body: str) -> str:
    standard = [
        "import datetime" if "datetime." in body else "",
        _from("collections.abc", ["Mapping"], body),
        _from("typing", ["Annotated", "Any", "Literal"], body),
    ]
    libraries = [
        _from("attrs", ["frozen"], body),
        _from("reconcile", ["Object", "Quantity", "resource"], body),
        _from("reconcile.models", ["Column", "Rule", "Scale", "Schema"], body),
    ]
    groups = ("\n".join(line for line in group if line) for group in (standard, libraries))
    return "\n\n".join(group for group in groups if group)


def _from(module: str, names: Iterable[str], body: str) -> str:
    marks = {"Mapping": "Mapping[", "Annotated": "Annotated[", "Literal": "Literal["}
    calls = ("Column", "Rule", "Scale", "Schema", "resource")
    used = [n for n in names if (marks.get(n) or (f"{n}(" if n in calls else n)) in body]
    return f"from {module} import {', '.join(used)}" if used else ""


def _class(one: ClassSource) -> str:
    lines = [
        *(f"# {' '.join(_escaped(note).split())}" for note in one.notes),
        *_laid_out("@", one.decorator, ""),
    ]
    lines.append(f"class {one.name}({one.base}):" if one.base else f"class {one.name}:")
    inside: list[str] = []
    if one.description:
        inside += [*_docstring(one.description), ""]
    for member in one.fields:
        inside += _field(member)
    while inside and not inside[-1]:
        inside.pop()
    return "\n".join([*lines, *(inside or [f"{_INDENT}pass"])])


def _field(member: FieldSource) -> list[str]:
    after = "" if member.value is None else f" = {member.value}"
    head = f"{_INDENT}{member.name}: "
    lines = _laid_out(head, member.annotation, _INDENT, after)
    if len(lines) == 1 and len(lines[0]) > WIDTH:
        lines = [f"{head}(", f"{_INDENT * 2}{member.annotation}", f"{_INDENT}){after}"]
    return [*lines, *_docstring(member.description)] if member.description else lines


def _laid_out(head: str, code: Code, indent: str, after: str = "") -> list[str]:
    """One line, or one per argument if that is too long."""
    line = f"{head}{code}{after}"
    if len(line) <= WIDTH or isinstance(code, str):
        return [line]
    inner = indent + _INDENT
    lines = [f"{head}{code.function}{code.brackets[0]}"]
    for before, argument in code.entries:
        lines += _laid_out(f"{inner}{before}", argument, inner, ",")
    return [*lines, f"{indent}{code.brackets[1]}{after}"]


def _docstring(text: str) -> list[str]:
    text = _escaped(text).strip()
    if text.endswith('"'):
        text += " "
    paragraphs = text.split("\n")
    if len(paragraphs) == 1 and len(text) + len(_INDENT) + 6 <= WIDTH:
        return [f'{_INDENT}"""{text}"""']
    lines: list[str] = []
    for paragraph in paragraphs:
        lines += textwrap.wrap(
            paragraph.strip(), WIDTH - 10, break_long_words=False, break_on_hyphens=False
        ) or [""]
    lines[0] = f'"""{lines[0]}'
    return [*(f"{_INDENT}{line}" if line else "" for line in lines), f'{_INDENT}"""']
