"""Renders a Helm chart: the part of Go's templates, and of Helm's functions, that our charts are written in.

What it does is checked against recorded output of Helm itself (tests/shipping/test_chart_renderer.py).
Anything else in a template is refused: a chart that comes to use more of the language needs a new recording.
"""

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml
from attrs import evolve, field, frozen

Value: TypeAlias = Any
Document: TypeAlias = dict[str, Any]

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ACTION: Final = re.compile(r"\{\{(-\s)?\s*(.*?)\s*(\s-)?\}\}", re.DOTALL)
_TOKEN: Final = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[()|]|[^\s()|]+)')


class TemplateError(Exception):
    """A template that Helm would refuse, or that uses more than is known here."""


@frozen
class Action:
    text: str


@frozen
class Block:
    """`if`, `with` or `range`: what is rendered where its value is not empty, and where it is."""

    keyword: str
    pipeline: str
    body: Sequence["Node"]
    otherwise: Sequence["Node"]


Node: TypeAlias = str | Action | Block


# --- parsing ------------------------------------------------------------------------------------------


def parse(text: str, defines: dict[str, Sequence[Node]]) -> Sequence[Node]:
    """The nodes of a template; `define` blocks go into `defines`."""
    parser = _Parser(_pieces(text), defines)
    nodes, ended_by = parser.nodes()
    if ended_by:
        raise TemplateError(f"unexpected {{{{{ended_by}}}}}")
    return nodes


def _pieces(text: str) -> Iterator[str | Action]:
    place, trims = 0, False
    for match in _ACTION.finditer(text):
        before = text[place : match.start()]
        before = before.lstrip() if trims else before
        yield before.rstrip() if match[1] else before
        place, trims = match.end(), bool(match[3])
        if not match[2].startswith("/*"):
            yield Action(match[2])
    rest = text[place:]
    yield rest.lstrip() if trims else rest


@frozen
class _Parser:
    pieces: Iterator[str | Action]
    defines: dict[str, Sequence[Node]]

    def nodes(self) -> tuple[Sequence[Node], str]:
        """Those up to the end of this block, and what ended it."""
        nodes: list[Node] = []
        for piece in self.pieces:
            if isinstance(piece, str):
                nodes.append(piece)
                continue
            keyword, _, rest = piece.text.partition(" ")
            if keyword in ("end", "else"):
                return nodes, piece.text
            if keyword == "define":
                body, _ = self.nodes()
                self.defines[_literal(rest)] = body
            elif keyword in ("if", "with", "range"):
                nodes.append(self.block(keyword, rest))
            else:
                nodes.append(piece)
        return nodes, ""

    def block(self, keyword: str, pipeline: str) -> Block:
        body, ended_by = self.nodes()
        otherwise: Sequence[Node] = []
        if ended_by == "else":
            otherwise, ended_by = self.nodes()
        if ended_by != "end":
            raise TemplateError(f"{keyword} {pipeline} ends with {ended_by!r}")
        return Block(keyword, pipeline, body, otherwise)


def _literal(text: str) -> str:
    return str(yaml.safe_load(text))


# --- evaluation ---------------------------------------------------------------------------------------


@frozen
class Scope:
    root: Value
    dot: Value
    defines: Mapping[str, Sequence[Node]]

    def render(self, nodes: Sequence[Node]) -> str:
        return "".join(map(self._node, nodes))

    def _node(self, node: Node) -> str:
        match node:
            case str():
                return node
            case Action(text):
                return _shown(self.evaluate(text))
            case Block("range", pipeline, body, otherwise):
                items = self.evaluate(pipeline) or []
                if not items:
                    return self.render(otherwise)
                return "".join(evolve(self, dot=item).render(body) for item in items)
            case Block("with", pipeline, body, otherwise):
                value = self.evaluate(pipeline)
                return evolve(self, dot=value).render(body) if value else self.render(otherwise)
            case Block(_, pipeline, body, otherwise):
                return self.render(body if self.evaluate(pipeline) else otherwise)

    def evaluate(self, pipeline: str) -> Value:
        tokens = _TOKEN.findall(pipeline)
        value, rest = self._pipeline(tokens)
        if rest:
            raise TemplateError(f"too much in {pipeline!r}")
        return value

    def _pipeline(self, tokens: Sequence[str]) -> tuple[Value, Sequence[str]]:
        passed: list[Value] = []
        while True:
            words: list[Value] = []
            function = ""
            while tokens and tokens[0] not in ("|", ")"):
                token, tokens = tokens[0], tokens[1:]
                if token == "(":
                    value, tokens = self._pipeline(tokens)
                    words.append(value)
                    tokens = tokens[1:]
                elif not words and not function and token in FUNCTIONS:
                    function = token
                else:
                    words.append(self._word(token))
            result = self._call(function, [*words, *passed])
            if not tokens or tokens[0] == ")":
                return result, tokens
            passed, tokens = [result], tokens[1:]

    def _call(self, function: str, arguments: Sequence[Value]) -> Value:
        if function == "include":
            name, dot = arguments
            return evolve(self, dot=dot).render(self.defines[name])
        if function:
            return FUNCTIONS[function](*arguments)
        (value,) = arguments
        return value

    def _word(self, token: str) -> Value:
        if token.startswith('"'):
            return _literal(token)
        if token.isdigit():
            return int(token)
        if token[0] not in ".$":
            raise TemplateError(f"{token!r} is not known here")
        value = self.root if token[0] == "$" else self.dot
        for name in token.lstrip("$").split("."):
            if not name:
                continue
            if not isinstance(value, Mapping):
                raise TemplateError(f"{token}: there is no {name} in {value!r}")
            value = value.get(name)
        return value


def _shown(value: Value) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(value: Value) -> str:
    text = _shown(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def _nindent(width: int, text: str) -> str:
    return "\n" + "\n".join(" " * width + line for line in text.split("\n"))


FUNCTIONS: Final[Mapping[str, Callable[..., Value]]] = {
    "and": lambda *values: next((value for value in values if not value), values[-1]),
    "default": lambda other, value=None: value or other,
    "eq": lambda one, other: one == other,
    "include": lambda name, dot: None,  # `_call` has it: it needs the definitions
    "join": lambda between, items: between.join(map(_shown, items)),
    "ne": lambda one, other: one != other,
    "nindent": _nindent,
    "not": lambda value: not value,
    "quote": _quoted,
    "toYaml": lambda value: yaml.safe_dump(value, default_flow_style=False, width=10**6).rstrip("\n"),
}


# --- charts -------------------------------------------------------------------------------------------


@frozen
class Chart:
    """The files of a chart, by their paths."""

    files: Mapping[str, str] = field(repr=False)

    @classmethod
    def read(cls, folder: Path) -> "Chart":
        files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
        return cls({file.relative_to(folder).as_posix(): file.read_text() for file in files})

    @property
    def values(self) -> Document:
        values: Document = yaml.load(self.files["values.yaml"], Loader=_LOADER)
        return values

    def texts(
        self, values: Mapping[str, Value] | None = None, *, release: str = "web", namespace: str = "default"
    ) -> Mapping[str, str]:
        """The rendered text of each template, by its path."""
        about = {"Name": release, "Namespace": namespace, "Service": "Helm"}
        root = {"Values": overridden(self.values, values or {}), "Release": about}
        defines: dict[str, Sequence[Node]] = {}
        templates = {
            path: parse(text, defines) for path, text in self.files.items() if path.startswith("templates/")
        }
        scope = Scope(root, root, defines)
        return {path: scope.render(nodes) for path, nodes in templates.items() if "/_" not in path}

    def objects(
        self, values: Mapping[str, Value] | None = None, *, release: str = "web", namespace: str = "default"
    ) -> Sequence[Document]:
        """The objects that are rendered, hooks among them."""
        texts = self.texts(values, release=release, namespace=namespace)
        return [one for path, text in texts.items() if path.endswith(".yaml") for one in objects_in(text)]


def overridden(values: Document, changes: Mapping[str, Value]) -> Document:
    """The values with those of `changes`: mappings are merged, anything else is replaced."""
    merged = copy.deepcopy(values)
    for name, change in changes.items():
        mapping = isinstance(change, Mapping) and isinstance(merged.get(name), dict)
        merged[name] = overridden(merged[name], change) if mapping else change
    return merged


def objects_in(text: str) -> Sequence[Document]:
    return [document for document in yaml.load_all(text, Loader=_LOADER) if document]


def is_hook(document: Document) -> bool:
    return "helm.sh/hook" in document["metadata"].get("annotations", {})
