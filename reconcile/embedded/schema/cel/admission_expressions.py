"""The expressions of admission webhooks and policies: compiled against the types of what they may read.

As in a real server, `object`, `oldObject` and `params` have no type, `request` and `namespaceObject` have
(BuildRequestType and BuildNamespaceType of k8s.io/apiserver).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

from attrs import evolve, field, frozen
from cel_expr_python import cel
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from reconcile.embedded.schema.cel.cel_rules import RuleError, check_literals, compiled
from reconcile.embedded.schema.cel.cel_types import DYN, WELL_KNOWN, CelShape, Types, cel_type, declare
from reconcile.embedded.schema.cel.library import AUTHORIZATION, checking_config
from reconcile.embedded.schema.cel.rewriting import checkable, tokens

Result = Literal["condition", "text", "annotation", "variable", "object", "patches"]
"""What an expression is: a bool, a string, a string or null, anything, an `Object`, a list of patches."""

_OBJECT, _PATCH, _VARIABLES = "Object", "JSONPatch", "Variables"
_HELD_VARIABLES: Final = "__variables"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_WHOLE: Final = {"type": "integer"}
_TIME: Final = {"type": "string", "format": "date-time"}
_ANYTHING: Final = {"x-kubernetes-int-or-string": True}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_TEXT_BY_NAME: Final = {"type": "object", "additionalProperties": _TEXT}


def _message(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members}


_KIND: Final = _message(group=_TEXT, version=_TEXT, kind=_TEXT)
_RESOURCE: Final = _message(group=_TEXT, version=_TEXT, resource=_TEXT)
_USER: Final = _message(
    username=_TEXT, uid=_TEXT, groups=_TEXTS, extra={"type": "object", "additionalProperties": _TEXTS}
)
_REQUEST: Final = _message(
    kind=_KIND, resource=_RESOURCE, subResource=_TEXT, requestKind=_KIND, requestResource=_RESOURCE,
    requestSubResource=_TEXT, name=_TEXT, namespace=_TEXT, operation=_TEXT, userInfo=_USER, dryRun=_FLAG,
    options=_ANYTHING,
)  # fmt: skip
_CONDITION: Final = _message(
    status=_TEXT, type=_TEXT, lastTransitionTime=_TIME, message=_TEXT, reason=_TEXT
)  # fmt: skip
_NAMESPACE: Final = _message(
    metadata=_message(
        name=_TEXT, generateName=_TEXT, namespace=_TEXT, labels=_TEXT_BY_NAME, annotations=_TEXT_BY_NAME,
        UID=_TEXT, creationTimestamp=_TIME, deletionGracePeriodSeconds=_WHOLE, deletionTimestamp=_TIME,
        generation=_WHOLE, resourceVersion=_TEXT, finalizers=_TEXTS,
    ),
    spec=_message(finalizers=_TEXTS),
    status=_message(conditions={"type": "array", "items": _CONDITION}, phase=_TEXT),
)  # fmt: skip


@frozen
class Expressions:
    """The compiler of one webhook or policy."""

    params: bool = False
    """Whether it has parameters: `params` is unknown otherwise."""
    composes: bool = False
    """Whether expressions may read variables."""
    _variables: Mapping[str, cel.Type] = field(factory=dict)
    _typed: Mapping[str, CelShape] = field(factory=dict)
    _files: tuple[bytes, ...] = ()
    _environments: dict[Any, cel.Env] = field(factory=dict, eq=False, repr=False)
    """By what they declare: to make one takes far longer than to compile an expression."""
    _found: dict[Any, cel.Type] = field(factory=dict, eq=False, repr=False)
    """The types of expressions, since a variable is checked before it is declared."""

    def typed(self, schema: Mapping[str, Any], params: Mapping[str, Any] | None = None) -> "Expressions":
        """The same, where `object` and `oldObject` have the types of a schema, and `params` those of one."""
        kinds, files = dict[str, CelShape](), list[bytes]()
        for names, found in ((("object", "oldObject"), schema), (("params",), params)):
            types = Types(lenient=True, package=f"checked_{names[0]}")
            shape = None if found is None else types.shape(found)
            if shape is not None:
                kinds |= dict.fromkeys(names, shape)
                files.append([*types.files()][-1])
        return evolve(self, typed=kinds, files=tuple(files), environments={}, found={})

    def with_variable(self, name: str, text: str) -> "Expressions":
        """The same, for expressions after this variable, which has no type if it does not compile."""
        if _NAME.fullmatch(name) is None:
            return self
        try:
            found = self._return_type(text, authorizer=True, patches=False)
        except RuleError:
            found = cel.Type.DYN
        return evolve(self, variables={**self._variables, name: found})

    @property
    def optional(self) -> frozenset[str]:
        """The variables whose values are optional."""
        return frozenset(name for name, kind in self._variables.items() if _is_optional(kind))

    def check(self, text: str, result: Result, *, authorizer: bool = True) -> None:
        """Raises RuleError if an expression does not compile or its result is of another type."""
        found = self._return_type(text, authorizer=authorizer, patches=result in ("object", "patches"))
        wanted = _RESULTS[result]
        if wanted and found not in wanted:
            names = [_name_in_go(kind) for kind in wanted]
            one = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
            raise RuleError(f"must evaluate to {one} but got {_name_in_go(found)}")

    def _return_type(self, text: str, *, authorizer: bool, patches: bool) -> cel.Type:
        words = _with_held_variables(tokens(checkable(text)))
        # With all variables declared, many of them would take a time that grows with the square.
        read = {name: self._variables[name] for name in sorted(self._variables.keys() & set(words))}
        declares = (authorizer, *((name, str(kind)) for name, kind in read.items()))
        known = self._found.get((text, patches, declares))
        if known is not None:
            return known
        made = "".join(_without_dots(words)) if patches else "".join(words)
        environment = None if patches else self._environments.get(declares)
        if environment is None:
            environment = cel.NewEnv(
                descriptor_pool=self._pool(words, read, patches),
                config=_config(patches=patches),
                variables=self._declared(read, authorizer),
            )
        if not patches:
            self._environments[declares] = environment
        found = compiled(environment, made).return_type()
        check_literals(text)
        self._found[text, patches, declares] = found
        return found

    def _declared(self, read: Mapping[str, cel.Type], authorizer: bool) -> dict[str, cel.Type]:
        _, request, namespace = _known_types()
        declared = {
            "object": cel_type(self._typed.get("object", DYN)),
            "oldObject": cel_type(self._typed.get("oldObject", DYN)),
            "namespaceObject": cel_type(namespace),
            "request": cel_type(request),
        }
        if self.params:
            declared["params"] = cel_type(self._typed.get("params", DYN))
        if authorizer:
            declared["authorizer"] = cel.Type.AbstractType(f"{AUTHORIZATION}.Authorizer")
            declared["authorizer.requestResource"] = cel.Type.AbstractType(f"{AUTHORIZATION}.ResourceCheck")
        if self.composes:
            declared[_HELD_VARIABLES] = cel.Type(_VARIABLES)
        return declared | {f"variables.{name}": kind for name, kind in read.items()}

    def _pool(self, words: Sequence[str], read: Iterable[str], patches: bool) -> DescriptorPool:
        file = FileDescriptorProto(name="admission.proto", syntax="proto2")
        file.dependency.extend(module.DESCRIPTOR.name for module in WELL_KNOWN)
        _add_message(file, _VARIABLES, read)
        if patches:
            names = sorted(set(filter(_NAME.fullmatch, words)))
            for name in {_OBJECT, *_object_types(words)}:
                _add_message(file, name, names)
            _add_message(file, _PATCH, ("value",), texts=("from", "op", "path"))
        pool = DescriptorPool()
        for data in (*_known_types()[0], *self._files):
            pool.AddSerializedFile(data)
        pool.AddSerializedFile(file.SerializeToString())
        return pool


_RESULTS: Final[dict[Result, tuple[cel.Type, ...]]] = {
    "condition": (cel.Type.BOOL,),
    "text": (cel.Type.STRING,),
    "annotation": (cel.Type.STRING, cel.Type.NULL),
    "variable": (),
    "object": (cel.Type(_OBJECT),),
    "patches": (cel.Type.List(cel.Type(_PATCH)),),
}


_WORDS_OF_GO: Final = {"NULL": "null_type", "<": "(", ">": ")", f"{_OBJECT}__": f"{_OBJECT}.", "__": "."}
_WORD: Final = re.compile(rf"\b(?:[A-Z]+)\b|[<>]|{_OBJECT}__|__")


def _name_in_go(kind: cel.Type) -> str:
    """The name of a type as a real server says it: `map(string, dyn)` for `MAP<STRING, DYN>`."""
    return _WORD.sub(lambda found: _WORDS_OF_GO.get(found[0], found[0].lower()), str(kind))


def _is_optional(kind: cel.Type) -> bool:
    return str(kind).startswith("optional")


@lru_cache(maxsize=1)
def _known_types() -> tuple[tuple[bytes, ...], CelShape, CelShape]:
    """The files of the types that every expression knows, and those of `request` and `namespaceObject`."""
    types = Types(plain_names=True)
    request, namespace = types.shape(_REQUEST), types.shape(_NAMESPACE)
    return tuple(types.files()), request or DYN, namespace or DYN


@lru_cache(maxsize=2)
def _config(*, patches: bool) -> cel.EnvConfig:
    return cel.NewEnvConfigFromYaml(checking_config(binds=False, patches=patches))


def _add_message(
    file: FileDescriptorProto, name: str, members: Iterable[str], texts: Sequence[str] = ()
) -> None:
    message = file.message_type.add(name=name)
    message.options.deprecated_legacy_json_field_conflicts = True
    for member in texts:
        declare(message, member, CelShape("string"))
    for member in members:
        declare(message, member, DYN)


def _with_held_variables(words: Sequence[str]) -> list[str]:
    """The words of an expression, where `has(variables.name)` reads a message.

    Each variable is declared by its name in full, `variables.name`, and `has` is for fields only.
    """
    before = zip(("", "", *words), ("", *words), words, strict=False)
    return [
        _HELD_VARIABLES if word == "variables" and (first, second) == ("has", "(") else word
        for first, second, word in before
    ]


# A field of a message and a type within it cannot have the same name in protobuf, so that the type
# `Object.metadata` has another one here.


def _object_types(words: Sequence[str]) -> Iterator[str]:
    return (word for word in _without_dots(words) if word.startswith(f"{_OBJECT}__"))


def _without_dots(words: Sequence[str]) -> list[str]:
    """The words of an expression, where `Object.spec.template` before a brace is one name without dots."""
    made: list[str] = []
    at = 0
    while at < len(words):
        end = _end_of_type(words, at)
        made.append("__".join(words[at:end:2]) if end > at + 1 else words[at])
        at = max(end, at + 1)
    return made


def _end_of_type(words: Sequence[str], at: int) -> int:
    """Where the name of a type of objects that begins at `at` ends; `at` if none does."""
    if words[at] != _OBJECT or (at and words[at - 1] == "."):
        return at
    end = at + 1
    while end + 1 < len(words) and words[end] == "." and _NAME.fullmatch(words[end + 1]):
        end += 2
    after = next((word for word in words[end:] if not word.isspace()), "")
    return end if after == "{" else at
