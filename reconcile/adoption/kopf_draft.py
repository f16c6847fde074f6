"""A draft of an operator from the handlers of one on kopf: a function for each of theirs, to be filled in.

The draft runs as it is. What is not written yet does nothing, with two exceptions: a cleanup that is not
written keeps its object, so that nothing outside the cluster is forgotten; and no object of the operator on
kopf is taken over until all is written.
"""

import itertools
import keyword
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from attrs import evolve, field, frozen

import reconcile.kinds
from informers import APIResource
from reconcile.adoption.kopf_counterparts import plain
from reconcile.adoption.kopf_handlers import Code, KopfHandler, KopfOperator, ResourceNames
from reconcile.adoption.kopf_report import by_function, notes_of, row_of, row_of_setting
from reconcile.models import Object, kind_of

HELD_SECONDS: Final = 60
RECONCILED: Final = frozenset(
    {"kopf.on.create", "kopf.on.update", "kopf.on.resume", "kopf.on.field", "kopf.on.event", "kopf.timer"}
)
_ROLES: Final = {
    **dict.fromkeys(sorted(RECONCILED), "reconciled"),
    "kopf.on.delete": "cleanup",
    "kopf.daemon": "daemon",
    "kopf.on.mutate": "defaults",
    "kopf.on.validate": "check",
    "kopf.index": "index",
}
"""What functions with these decorators become, in the order in which one keeps its name."""
_Roles: TypeAlias = Callable[[Sequence[KopfHandler]], Mapping[str, Sequence[KopfHandler]]]
_BESIDE: Final = ("steps", "value", "names")
ONCE: Final = frozenset({"kopf.on.create", "kopf.on.update", "kopf.on.field"})
"""Decorators of handlers that are called for one change, with all their sub-handlers, until it is through."""
_LABEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?")
_TAKEN: Final = frozenset(
    (
        *("admission", "anyio", "background", "cleanup", "controller", "ctx", "defaults", "gone", "main"),
        *("digest_of", "encode", "manager", "on_deleted", "predecessor", "reconcile", "refuses", "request"),
        *("step", "task"),
    )
)
"""Names that the modules of a draft use themselves."""


@frozen
class Part:
    """A function of the draft, and the handlers that it takes the place of.

    `inner` are the functions that take the place of its sub-handlers, in order, by the ids of those. `each`
    is the function for all sub-handlers whose ids only a call of the handler knows; empty if there are none.
    `beside` are names for what else the steps need: `steps`, `value` and `names`.
    """

    name: str
    handlers: Sequence[KopfHandler]
    inner: Mapping[str, str] = field(factory=dict)
    each: str = ""
    beside: Mapping[str, str] = field(factory=dict)

    def replaced(self, inner: str) -> Sequence[str]:
        """kopf's ids of a sub-handler that is known, one for each handler that registers it."""
        facts = self.handlers[0].facts
        below = facts.subhandlers.get(inner, inner) if facts else inner
        return list(dict.fromkeys(f"{one.id}/{below}" for one in self.handlers if one.decorator in ONCE))

    @property
    def has_inner(self) -> bool:
        """Whether it has sub-handlers."""
        return bool(self.inner or self.each)

    @property
    def decorators(self) -> frozenset[str]:
        return frozenset(handler.decorator for handler in self.handlers)

    @property
    def place(self) -> str:
        first = self.handlers[0].place
        return f"{first.name}, {first}"

    def docstring(self, indent: str = "    ") -> str:
        """What it was, what called it, and what needs thought."""
        doc = self.handlers[0].place.doc
        called = [f"- {handler} -> {row_of(handler).words}" for handler in self.handlers]
        notes = list(dict.fromkeys(f"- {note}" for handler in self.handlers for note in notes_of(handler)))
        lines = [*([*doc.splitlines(), ""] if doc else []), f"On kopf: {self.place}", *called]
        if notes:
            lines += ["", "To think of:", *notes]
        safe = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
        return "\n".join(f"{indent}{line}".rstrip() for line in f'"""{safe}\n"""'.splitlines())


@frozen
class Draft:
    """What the modules of a draft for one kind are made of. `kind` is the name of its class.

    `beside` are the other kinds of the same draft. The modules of the `first` have plain names, and it has
    what concerns no kind of the draft: indexes over other kinds, and children that handlers follow. `domain`
    is that of the operator, for a kind of Kubernetes; empty: a definition defines the kind. `steps_field` is
    the field of its status that has the records of steps.
    """

    package: str
    kind: str
    operator: KopfOperator
    names: ResourceNames
    beside: Sequence[ResourceNames] = ()
    first: bool = True
    domain: str = ""
    steps_field: str = "steps"
    parts: Sequence[Part] = field(init=False)

    def __attrs_post_init__(self) -> None:
        taken = {self.reconciler, *map(controller_name, self.beside)}
        parts = (
            evolve(part, handlers=[one for one in part.handlers if not self._is_beside(one)] or part.handlers)
            for part in _parts(self.operator.handlers, taken, self._by_role)
        )
        object.__setattr__(self, "parts", tuple(parts))

    def _by_role(self, handlers: Sequence[KopfHandler]) -> Mapping[str, Sequence[KopfHandler]]:
        """The handlers of one function by what it becomes for the kind: a function of the draft for each.

        The first one has the name of the function, and the handlers of other kinds.
        """
        own = {one.decorator for one in handlers if one.selector and one.selector.matches(self.names)}
        roles = list(dict.fromkeys(role for decorator, role in _ROLES.items() if decorator in own)) or [""]
        found: dict[str, list[KopfHandler]] = {role: [] for role in roles}
        for one in handlers:
            role = _ROLES.get(one.decorator, "")
            found[role if role in found else roles[0]].append(one)
        return {role: of_role for role, of_role in found.items() if of_role}

    def module(self, name: str) -> str:
        """The name of a module for this kind: `reconciler`, or `backup_reconciler`."""
        return name if self.first else f"{self.kind.lower()}_{name}"

    @property
    def sample(self) -> str:
        """The file with an object of the kind."""
        return "sample.yaml" if self.first else f"sample_{self.kind.lower()}.yaml"

    @property
    def reconciler(self) -> str:
        """The name of the function that calls all parts."""
        return f"reconcile_{self.kind.lower()}"

    # --- which part goes where ---

    def _of_kind(self, *decorators: str) -> Sequence[Part]:
        return [part for part in self.parts if part.decorators & set(decorators) and self._is_own(part)]

    def _is_own(self, part: Part) -> bool:
        return any(one.selector is not None and one.selector.matches(self.names) for one in part.handlers)

    @property
    def is_empty(self) -> bool:
        """Whether no handler is for the kind."""
        return not any(map(self._is_own, self.parts))

    @property
    def reconciled(self) -> Sequence[Part]:
        return self._of_kind(*RECONCILED)

    @property
    def cleanups(self) -> Sequence[Part]:
        return [part for part in self._of_kind("kopf.on.delete") if not _optional(part)]

    def has_steps(self, part: Part) -> bool:
        """Whether its sub-handlers become steps: each was called once for a creation, a change, a deletion.

        A kind of Kubernetes has no place for their records.
        """
        if not part.has_inner or self.domain:
            return False
        return part in self.cleanups or (part in self.reconciled and bool(part.decorators & ONCE))

    @property
    def stepped(self) -> Sequence[Part]:
        """The parts with steps."""
        return [part for part in (*self.reconciled, *self.cleanups) if self.has_steps(part)]

    @property
    def forgetting(self) -> Sequence[Part]:
        return [part for part in self._of_kind("kopf.on.delete") if _optional(part)]

    @property
    def daemons(self) -> Sequence[Part]:
        return self._of_kind("kopf.daemon")

    @property
    def refusing(self) -> Sequence[Part]:
        return self._of_kind("kopf.on.validate")

    @property
    def completing(self) -> Sequence[Part]:
        return self._of_kind("kopf.on.mutate")

    @property
    def admits(self) -> bool:
        """Whether it has functions of admission."""
        return bool(self.refusing or self.completing)

    @property
    def indexes(self) -> Mapping[str, tuple[Part, str]]:
        """Index functions by the name of the index, with the class of what they are over."""
        found: dict[str, tuple[Part, str]] = {}
        for part in self.parts:
            for handler in part.handlers:
                kind = self._class_of(handler) if handler.decorator == "kopf.index" else ""
                if kind and (kind == self.kind or (self.first and not self._is_beside(handler))):
                    found.setdefault(handler.id, (part, kind))
        return found

    @property
    def owned(self) -> Sequence[str]:
        """Built-in kinds that handlers follow, or write by a client's methods."""
        found: dict[str, None] = {}
        for part in self.parts:
            for handler in part.handlers:
                followed = self.first and handler.decorator == "kopf.on.event"
                followed = followed and not self._is_beside(handler)
                kind = self._class_of(handler) if followed else ""
                found.update({kind: None} if kind and kind != self.kind else {})
                creates = handler.facts.creates if handler.facts and self._is_own(part) else ()
                found.update({kind: None for name in creates if (kind := _built_in_by_method(name))})
        return sorted(found)

    def _is_beside(self, handler: KopfHandler) -> bool:
        """Whether a handler is for another kind of the same draft."""
        return any(handler.selector is not None and handler.selector.matches(one) for one in self.beside)

    @property
    def unwritten(self) -> Sequence[str]:
        """The functions that have to be written before the draft may take objects over."""
        inner = [
            name
            for part in (*self.reconciled, *self.cleanups)
            for name in (*part.inner.values(), *((part.beside["names"], part.each) if part.each else ()))
        ]
        parts = (
            *(*self.reconciled, *self.cleanups, *self.forgetting, *self.daemons, *self.refusing),
            *(*self.completing, *(part for part, _ in self.indexes.values())),
        )
        return list(dict.fromkeys((*(part.name for part in parts), *inner))) or [self.reconciler]

    @property
    def left(self) -> Sequence[Part]:
        """Parts that have no place in the draft."""
        placed = [
            *(*self.reconciled, *self.cleanups, *self.forgetting, *self.daemons, *self.refusing),
            *(*self.completing, *(part for part, _ in self.indexes.values()), *self.activities),
        ]
        return [part for part in self.parts if part not in placed]

    def owned_by(self, part: Part) -> str:
        """The built-in kind whose events a part was called for; empty if there is none."""
        kinds = [self._class_of(one) for one in part.handlers if one.decorator == "kopf.on.event"]
        return next((kind for kind in kinds if kind and kind != self.kind), "")

    @property
    def activities(self) -> Sequence[Part]:
        return [part for part in self.parts if part.handlers[0].selector is None]

    def _class_of(self, handler: KopfHandler) -> str:
        """The class of a handler's resource: the draft's own, a built-in one, or none."""
        selector = handler.selector
        if selector is None or selector.is_everything:
            return ""
        if selector.matches(self.names):
            return self.kind
        return next((name for name, names in _built_in().items() if selector.matches(names)), "")

    # --- what follows from arguments and settings ---

    @property
    def every(self) -> float | None:
        """The shortest interval of its timers."""
        given = (one.arguments.get("interval") for part in self.reconciled for one in part.handlers)
        return min((value for value in given if isinstance(value, int | float) and value > 0), default=None)

    @property
    def selector(self) -> str:
        """The labels that all handlers of the kind ask for, as text; empty where they differ or need code."""
        asked = [
            one.arguments.get("labels") or {}
            for part in self.parts
            for one in part.handlers
            if one.selector is not None and one.selector.matches(self.names)
        ]
        if not asked or any(labels != asked[0] for labels in asked):
            return ""
        texts = [_requirement(name, value) for name, value in asked[0].items()]
        return ",".join(texts) if all(texts) else ""


def _optional(part: Part) -> bool:
    deletes = [one for one in part.handlers if one.decorator == "kopf.on.delete"]
    return all(one.arguments.get("optional") for one in deletes)


def _requirement(name: str, value: Any) -> str:
    if not _LABEL.fullmatch(name):
        return ""
    if isinstance(value, Code):
        return {"kopf.PRESENT": name, "kopf.ABSENT": f"!{name}"}.get(value.text, "")
    return f"{name}={value}" if isinstance(value, str) and _LABEL.fullmatch(value) else ""


@cache
def _built_in() -> Mapping[str, ResourceNames]:
    """The built-in kinds by the names of their classes."""
    found: dict[str, ResourceNames] = {}
    for name in reconcile.kinds.__all__:
        value = getattr(reconcile.kinds, name)
        if isinstance(value, type) and issubclass(value, Object) and (resource := _resource(value)):
            found[name] = ResourceNames(
                resource.group, [resource.version], resource.kind, resource.plural, resource.kind.lower()
            )
    return found


def _resource(kind: type[Object]) -> APIResource | None:
    try:
        return kind_of(kind).resource
    except TypeError:  # a base class of kinds
        return None


def _built_in_by_method(name: str) -> str:
    """`config_map` of `create_namespaced_config_map` as ConfigMap; empty for a name of no built-in kind."""
    kind = "".join(part.capitalize() for part in name.split("_"))
    return kind if kind in _built_in() else ""


def controller_name(names: ResourceNames) -> str:
    """The name under which the first module of a draft imports the controller of another kind."""
    return f"{names.kind.lower()}_controller"


def built_in_named(word: str) -> tuple[str, ResourceNames] | None:
    """The class and the names of a kind of Kubernetes: `configmaps`, `ConfigMap`, `deployments.apps`."""
    for name, names in _built_in().items():
        plurals = (names.plural, f"{names.plural}.{names.group}")
        if word in (names.kind, names.singular, *plurals):
            return name, names
    return None


def _parts(handlers: Sequence[KopfHandler], names: Collection[str], by_role: _Roles) -> Iterator[Part]:
    taken = {*_TAKEN, *names}

    def named(text: str) -> str:
        """A function's name that no other has."""
        plain_name = re.sub(r"\W+", "_", text).strip("_") or "handler"
        name = plain_name if plain_name.isidentifier() and plain_name.isascii() else f"handler_{plain_name}"
        name = name if name.isascii() and name.isidentifier() else "handler"
        candidates = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
        free = next(one for one in candidates if one not in taken and not keyword.iskeyword(one))
        taken.add(free)
        return free

    for group in by_function(handlers):
        plain, facts = group[0].place.name.rpartition(".")[2], group[0].facts
        for number, (role, of_role) in enumerate(by_role(group).items()):
            name = named(f"{plain}_{role}" if number else plain)
            inner = {one: named(f"{name}_{one}") for one in (facts.subhandlers if facts else ())}
            each = named(f"{name}_each") if facts and facts.makes_subhandlers else ""
            beside = {one: named(f"{name}_{one}") for one in (_BESIDE if inner or each else ())}
            yield Part(name, of_role, inner, each, beside)


def settings_lines(operator: KopfOperator) -> Sequence[str]:
    """Each setting and what it becomes, a line each."""
    return [f"- `{one.name}` ({one.place}): {plain(row_of_setting(one).words)}" for one in operator.settings]
