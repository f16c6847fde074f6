"""Limits the writes of a controller to its declaration, as its role from `reconcile manifests` would."""

from collections.abc import Sequence
from typing import Any, Literal

import structlog
from attrs import define, field

from informers import APIResource
from reconcile.controller.declaration import Controller, Write
from reconcile.controller.permissions import Permission, permissions_of
from reconcile.models import Object
from reconcile.runs.run_request import TerminalError
from reconcile.runs.write_events import Sent, WriteObserver

Undeclared = Literal["warn", "refuse"]
"""The treatment of an undeclared write: a line of the log once, or an error."""

_Declared = tuple[type[Object], tuple[type[Object], ...], tuple[Write, ...], bool]
_KNOWN: dict[_Declared, frozenset[tuple[str, str, str]]] = {}
_MOST_KNOWN = 100
_VERB_OF = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class UndeclaredWrite(TerminalError):
    """A controller tried a write that it does not declare; nothing was sent.

    The rights of `reconcile manifests` would not allow it. `declare` is the entry that its `writes=` lacks,
    and `rule` the RBAC rule that follows.
    """

    def __init__(self, controller: str, declare: str, rule: str, what: str) -> None:
        super().__init__(
            f"controller {controller} does not declare that it may {what}: "
            f"add {declare} to its writes= (its children belong in owns=); the RBAC rule is {rule}"
        )
        self.controller = controller
        self.declare = declare
        self.rule = rule


@define(eq=False)
class DeclaredWrites(WriteObserver):
    """Refuses undeclared writes, or warns once of each kind and verb; Events are always allowed."""

    controller: Controller[Any]
    log: structlog.stdlib.BoundLogger
    refuse: bool = False
    _allowed: frozenset[tuple[str, str, str]] | None = field(default=None, init=False)
    _missing: dict[tuple[str, str], list[str]] = field(factory=dict, init=False)

    @property
    def missing(self) -> Sequence[str]:
        """The entries that `writes=` lacks for the writes so far."""
        return [_declared(kind, verbs, part) for (kind, part), verbs in self._missing.items()]

    def may_apply(self, resource: APIResource) -> bool:
        """Whether an object of a resource, or a part of one, may be applied."""
        return any(
            method == "PATCH"
            and group in (resource.group, "*")
            and plural.split("/")[0] in (resource.plural, "*")
            for method, group, plural in self._known()
        )

    def sent(self, sent: Sent) -> None:
        self.check(sent.method, sent.resource, sent.subresource)

    def check(self, method: str, resource: APIResource, subresource: str) -> None:
        """Check a request for a change. Raises UndeclaredWrite."""
        plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
        if (method, resource.group, plural) not in self._known():
            self._doubt(method, resource, plural, subresource)

    def _known(self) -> frozenset[tuple[str, str, str]]:
        if self._allowed is None:
            self._allowed = _allowed_to(self.controller)
        return self._allowed

    def _doubt(self, method: str, resource: APIResource, plural: str, subresource: str) -> None:
        if (method, "*", f"*/{subresource}") in (self._allowed or ()):
            return
        verb = _VERB_OF[method]
        verbs = self._missing.setdefault((resource.kind, subresource), [])
        if verb not in verbs:
            verbs.append(verb)
        elif not self.refuse:
            return
        rule = _as_text(Permission(resource.group, plural, (verb,)))
        declare = _declared(resource.kind, [verb], subresource)
        if self.refuse:
            raise UndeclaredWrite(self.controller.name, declare, rule, f"{verb} {plural}")
        self.log.warning("a write is not declared", verb=verb, resource=plural, declare=declare, rule=rule)


def _allowed_to(controller: Controller[Any]) -> frozenset[tuple[str, str, str]]:
    """The writes that a controller may send, as method, group and plural with part."""
    declared = controller.kind, tuple(controller.owns), tuple(controller.writes), not controller.finalizers
    # Cached by declaration: a simulation creates its controllers for each of thousands of runs.
    allowed = _KNOWN.get(declared)
    if allowed is None:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        allowed = _KNOWN[declared] = frozenset(
            (method, right.group, right.resource)
            for right in permissions_of([controller])
            for method, verb in _VERB_OF.items()
            if verb in right.verbs
        )
    return allowed


def _declared(kind: str, verbs: Sequence[str], part: str) -> str:
    subresource = f', subresource="{part}"' if part else ""
    named = "".join(f'"{verb}", ' for verb in verbs).rstrip(" " if len(verbs) == 1 else ", ")
    return f"Write({kind}, ({named}){subresource})"


def _as_text(right: Permission) -> str:
    verbs = ", ".join(f'"{verb}"' for verb in right.verbs)
    return f'{{apiGroups: ["{right.group}"], resources: ["{right.resource}"], verbs: [{verbs}]}}'
