"""Objects with parts that a chart's values decide, and their text as templates of Helm. Pure functions.

A tree is JSON in which a value may also be a node: `Raw`, `Either`, `Each`, `Optional` or `Extended`.
`either` makes one tree of two that are rendered in two cases, so that a template follows from objects.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from textwrap import indent
from typing import Any, Final, TypeAlias

from attrs import field, frozen

from reconcile.shipping.documents import Document, as_yaml

Tree: TypeAlias = Any
"""JSON with nodes in it."""


@frozen
class Raw:
    """A scalar as the text of a template, such as `{{ .Values.replicas }}`."""

    text: str


@frozen
class Absent:
    """In one of two cases there is nothing."""


ABSENT: Final = Absent()


@frozen
class Either:
    """`yes` where the condition holds, else `no`: values of a key, or in a list sequences of items."""

    condition: str
    yes: Tree
    no: Tree = ABSENT


@frozen
class Each:
    """An item of a list once for each element of the value `over`, which is `.` inside."""

    over: str
    item: Tree


@frozen
class Optional:
    """The value at a path, and without its key where it is empty; in a list, more items."""

    path: str


@frozen
class Extended:
    """A mapping, and after its entries those of the value at a path."""

    mapping: Document
    path: str


@frozen
class Placeholders:
    """Texts that stand in objects for what a template puts there: each with the action that gives it.

    An object of the right form is then made by the same code as always, whatever place the text has in it.
    """

    actions: Mapping[str, str] = field(factory=dict)

    def placed(self, tree: Tree) -> Tree:
        """The tree, in which a scalar that is a placeholder and nothing else is quoted."""
        match tree:
            case str() if tree in self.actions:
                return Raw(f"{{{{ {self.actions[tree]} | quote }}}}")
            case dict():
                return {key: self.placed(value) for key, value in tree.items()}
            case list() | tuple():
                return [self.placed(item) for item in tree]
            case Either(condition, yes, no):
                return Either(condition, self.placed(yes), self.placed(no))
            case Each(over, item):
                return Each(over, self.placed(item))
            case Extended(mapping, path):
                return Extended(self.placed(mapping), path)
            case _:
                return tree

    def static(self, text: str) -> str:
        """Text that is no template: its braces are escaped, and placeholders in it filled in."""
        text = text.replace("{{", '{{ "{{" }}')
        for placeholder, action in self.actions.items():
            text = text.replace(placeholder, f"{{{{ {action} }}}}")
        return text


# --- two cases in one ---------------------------------------------------------------------------------


def either(condition: str, yes: Tree, no: Tree) -> Tree:
    """The tree that is `yes` where the condition holds, and else `no`; what both have stands there once."""
    if yes == no:
        return yes
    if isinstance(yes, dict) and isinstance(no, dict):
        return {key: _of_key(condition, key, yes, no) for key in _keys(yes, no)}
    if isinstance(yes, list) and isinstance(no, list):
        return list(_items(condition, yes, no))
    return Either(condition, yes, no)


def _keys(yes: Mapping[str, Tree], no: Mapping[str, Tree]) -> Sequence[str]:
    """Those of both, each before the one that follows it in either, as far as the two agree."""
    keys = list(no)
    for place, key in enumerate(yes):
        if key not in no:
            before = [keys.index(one) for one in list(yes)[:place] if one in keys]
            keys.insert(max(before) + 1 if before else 0, key)
    return keys


def _of_key(condition: str, key: str, yes: Mapping[str, Tree], no: Mapping[str, Tree]) -> Tree:
    if key not in yes:
        return Either(f"not ({condition})", no[key])
    if key not in no:
        return Either(condition, yes[key])
    return either(condition, yes[key], no[key])


def _items(condition: str, yes: Sequence[Tree], no: Sequence[Tree]) -> Iterator[Tree]:
    ours, theirs = [_identity(item) for item in yes], [_identity(item) for item in no]
    steps = SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes()
    for step, from_yes, to_yes, from_no, to_no in steps:
        some, others = list(yes[from_yes:to_yes]), list(no[from_no:to_no])
        if step == "equal":
            yield from (either(condition, *pair) for pair in zip(some, others, strict=True))
        elif not some:
            yield Either(f"not ({condition})", others)
        else:
            yield Either(condition, some, others or ABSENT)


def _identity(item: Tree) -> str:
    """What makes two items of lists the same one in two cases: its name, or an object's kind and name."""
    if not isinstance(item, dict):
        return repr(item)
    if isinstance(metadata := item.get("metadata"), dict) and "kind" in item:
        return repr((item["kind"], metadata.get("name"), metadata.get("namespace")))
    return repr(item["name"]) if "name" in item else repr(item)


# --- text ---------------------------------------------------------------------------------------------


def template_of(documents: Sequence[Tree], placeholders: Placeholders) -> str:
    """The text of a file with these objects, each with `---` before it."""
    return _Writer(placeholders).documents([placeholders.placed(document) for document in documents])


@frozen
class _Writer:
    placeholders: Placeholders
    root: str = ""
    """What stands before `.Values`: `$` where `.` is something else."""

    def documents(self, documents: Sequence[Tree]) -> str:
        return "".join(f"{line}\n" for document in documents for line in self._document(document))

    def _document(self, document: Tree) -> Iterator[str]:
        match document:
            case Either(condition, yes, no):
                yield f"{{{{- if {self._rooted(condition)} }}}}"
                yield from (line for one in yes for line in self._document(one))
                if no is not ABSENT:
                    yield "{{- else }}"
                    yield from (line for one in no for line in self._document(one))
                yield "{{- end }}"
            case Each(over, item):
                yield f"{{{{- range {over} }}}}"
                yield from _Writer(self.placeholders, "$")._document(item)
                yield "{{- end }}"
            case _:
                yield "---"
                yield from self._mapping(document, 0)

    def _mapping(self, mapping: Mapping[str, Tree], depth: int) -> Iterator[str]:
        for key, value in mapping.items():
            yield from self._entry(key, value, depth)

    def _entry(self, key: str, value: Tree, depth: int) -> Iterator[str]:
        margin = " " * depth
        match value:
            case _ if _is_static(value):
                yield from self._static({key: value}, depth)
            case Raw(text):
                yield f"{margin}{key}: {text}"
            case Either(condition, yes, no):
                yield f"{margin}{{{{- if {self._rooted(condition)} }}}}"
                yield from self._entry(key, yes, depth)
                if no is not ABSENT:
                    yield f"{margin}{{{{- else }}}}"
                    yield from self._entry(key, no, depth)
                yield f"{margin}{{{{- end }}}}"
            case Optional(path):
                yield f"{margin}{{{{- with {self._rooted(path)} }}}}"
                yield f"{margin}{key}:"
                yield f"{margin}  {{{{- toYaml . | nindent {depth + 2} }}}}"
                yield f"{margin}{{{{- end }}}}"
            case Extended(mapping, path):
                yield f"{margin}{key}:"
                yield from self._mapping(mapping, depth + 2)
                yield f"{margin}  {{{{- with {self._rooted(path)} }}}}"
                yield f"{margin}  {{{{- toYaml . | nindent {depth + 2} }}}}"
                yield f"{margin}  {{{{- end }}}}"
            case dict():
                yield f"{margin}{key}:"
                yield from self._mapping(value, depth + 2)
            case _:
                yield f"{margin}{key}:"
                yield from self._list(value, depth)

    def _list(self, items: Iterable[Tree], depth: int) -> Iterator[str]:
        margin = " " * depth
        for item in items:
            match item:
                case _ if _is_static(item):
                    yield from self._static([item], depth)
                case Raw(text):
                    yield f"{margin}- {text}"
                case Either(condition, yes, no):
                    yield f"{margin}{{{{- if {self._rooted(condition)} }}}}"
                    yield from self._list(yes, depth)
                    if no is not ABSENT:
                        yield f"{margin}{{{{- else }}}}"
                        yield from self._list(no, depth)
                    yield f"{margin}{{{{- end }}}}"
                case Optional(path):
                    yield f"{margin}{{{{- with {self._rooted(path)} }}}}"
                    yield f"{margin}{{{{- toYaml . | nindent {depth} }}}}"
                    yield f"{margin}{{{{- end }}}}"
                case Each(over, inner):
                    yield f"{margin}{{{{- range {self._rooted(over)} }}}}"
                    yield from _Writer(self.placeholders, "$")._list([inner], depth)
                    yield f"{margin}{{{{- end }}}}"
                case _:
                    yield from self._object(list(self._mapping(item, depth + 2)), depth)

    def _object(self, lines: Sequence[str], depth: int) -> Iterator[str]:
        margin = " " * depth
        if lines[0].lstrip().startswith("{{-"):
            # A condition trims what is before it, so the dash keeps a line to itself.
            yield f"{margin}-"
            yield from lines
            return
        yield f"{margin}- {lines[0].lstrip()}"
        yield from lines[1:]

    def _static(self, value: Tree, depth: int) -> Iterator[str]:
        text = as_yaml(value).rstrip("\n")
        yield indent(self.placeholders.static(text), " " * depth)

    def _rooted(self, expression: str) -> str:
        return expression.replace(".Values", f"{self.root}.Values")


def _is_static(tree: Tree) -> bool:
    match tree:
        case Raw() | Either() | Each() | Optional() | Extended():
            return False
        case dict():
            return all(map(_is_static, tree.values()))
        case list() | tuple():
            return all(map(_is_static, tree))
        case _:
            return True
