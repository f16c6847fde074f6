"""The resources of one collection of a service, and the laws of reading and writing them."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec
from attrs import define, evolve, field, frozen

from reconcile.testing.fake_services.service_laws import ServiceCollection, ServiceRefusal, Span

T = TypeVar("T")


@frozen
class StoredResource(Generic[T]):
    """A resource as a service has it: its `value`, and how often it was written."""

    id: str
    value: T
    version: int
    number: int
    """The order in which it was created."""


@frozen
class ResourceChange(Generic[T]):
    """A change at `at` (s, of the loop), which reads see from `visible_at` on; `new` is None if deleted."""

    at: float
    visible_at: float
    id: str
    old: StoredResource[T] | None
    new: StoredResource[T] | None

    @property
    def what(self) -> str:
        """Whether it was created, changed or deleted."""
        if self.old is None:
            return "created"
        return "deleted" if self.new is None else "changed"


@frozen
class ServiceOperation:
    """What is carried out in the background, until `ends` (s, of the loop)."""

    id: str
    verb: str
    resource: str
    ends: float
    fails: bool = False
    done: bool = False


@define(eq=False)
class Resources(Generic[T]):
    """The resources of a `declared` collection. Its methods raise ServiceRefusal as the service answers.

    `now` is the time of the loop in seconds, `draw` a number of seconds within a span.
    """

    declared: ServiceCollection[T]
    _now: Callable[[], float]
    _draw: Callable[[Span], float]
    changes: list[ResourceChange[T]] = field(factory=list, init=False)
    operations: dict[str, ServiceOperation] = field(factory=dict, init=False)
    creates: Counter[str] = field(factory=Counter, init=False)
    """How often a resource of each identity was created."""
    deletes: Counter[str] = field(factory=Counter, init=False)
    late_until: float = field(default=0.0, init=False)
    """When the last change is seen by reads and the last operation has ended."""
    stale_by: int = field(default=0, init=False)
    """So many changes a read does not see yet, because of a planned fault."""
    next_fails: bool = field(default=False, init=False)
    """Whether the next operation fails, because of a planned fault."""
    on_change: Callable[[], None] | None = field(default=None, init=False)
    """Called after each change."""
    _latest: dict[str, StoredResource[T]] = field(factory=dict, init=False)
    _made: int = field(default=0, init=False)

    # --- reading ----------------------------------------------------------------------------------

    def all(self) -> list[T]:
        """All resources as they are, whatever reads see yet; for tests."""
        self.settle()
        return [one.value for one in self._latest.values()]

    def get(self, name: str) -> StoredResource[T]:
        """One resource as a read sees it now."""
        found = self._shown(late=not self.declared.strong_gets).get(name)
        if found is None:
            raise self._missing(name)
        return found

    def find(self, **fields: Any) -> list[StoredResource[T]]:
        """The resources whose fields have these values (compared as text), as a list sees them now."""
        return [one for one in self._shown(late=True).values() if self._matches(one, fields)]

    def page(
        self, fields: Mapping[str, Any], after: int = 0, limit: int | None = None
    ) -> tuple[list[StoredResource[T]], int | None]:
        """One page of a list from behind number `after`, and the number after which the next one begins."""
        most = min(limit or self.declared.page, self.declared.page)
        rest = sorted((one for one in self.find(**fields) if one.number > after), key=lambda one: one.number)
        return rest[:most], rest[most - 1].number if len(rest) > most else None

    def _matches(self, one: StoredResource[T], fields: Mapping[str, Any]) -> bool:
        body = self.body_of(one.value)
        return all(_text(body.get(name)) == _text(value) for name, value in fields.items())

    def _shown(self, *, late: bool) -> dict[str, StoredResource[T]]:
        self.settle()
        late = late and self.declared.is_late
        stale_by = self.stale_by if late or not self.declared.is_late else 0
        if not stale_by and not late:
            return self._latest
        now = self._now()
        seen = [one for one in self.changes if one.visible_at <= now or not late]
        # A fault makes a read as stale as the service may be, and no staler.
        oldest = now - self.declared.visible_after[1] if late else -math.inf
        unseen = [one for one in seen[max(0, len(seen) - stale_by) :] if one.at >= oldest] if stale_by else []
        shown: dict[str, StoredResource[T]] = {}
        for change in seen[: len(seen) - len(unseen)]:
            if change.new is None:
                shown.pop(change.id, None)
            else:
                shown[change.id] = change.new
        return shown

    # --- writing ----------------------------------------------------------------------------------

    def create(self, value: T | Mapping[str, Any]) -> StoredResource[T]:
        """Make a resource. Raises ServiceRefusal if the name is taken (409) or there are too many (403)."""
        self.settle()
        declared, body = self.declared, self.body_of(value)
        if declared.most is not None and len(self._latest) >= declared.most:
            raise ServiceRefusal(
                403, "quota_exceeded", f"there may be at most {declared.most} {declared.name}"
            )
        if declared.client_names:
            name = str(body.get(declared.id) or "")
            if not name:
                raise ServiceRefusal(422, "invalid", f"{declared.id} is missing")
            if name in self._latest:
                raise ServiceRefusal(409, "already_exists", f"{declared.name} {name} exists already")
        else:
            self._made += 1
            name = f"{declared.id_prefix or declared.name}-{self._made}"
        return self._put(name, {**body, declared.id: name}, "create")

    def replace(
        self,
        name: str,
        value: T | Mapping[str, Any],
        *,
        version: int | None = None,
    ) -> StoredResource[T]:
        """Set all fields; with `version`, refused with 412 if it was changed since."""
        before = self._for_write(name, version)
        body = {**self.body_of(value), self.declared.id: name}
        return self._changed(before, body)

    def update(
        self,
        name: str,
        fields: Mapping[str, Any],
        *,
        version: int | None = None,
    ) -> StoredResource[T]:
        """Set some fields; with `version`, refused with 412 if it was changed since."""
        before = self._for_write(name, version)
        return self._changed(before, {**self.body_of(before.value), **fields, self.declared.id: name})

    def delete(self, name: str, *, version: int | None = None) -> None:
        """Remove a resource. Refused with 404 if it does not exist."""
        before = self._for_write(name, version)
        operations = self.declared.operations
        if operations is None:
            self._change(before, None)
            return
        body = self.body_of(before.value)
        self._put(name, self._in_state(body, operations.deleting), "delete")

    def _changed(self, before: StoredResource[T], body: Mapping[str, Any]) -> StoredResource[T]:
        known = self.body_of(before.value)
        for name in self.declared.fixed:
            if body.get(name) != known.get(name):
                raise ServiceRefusal(422, "immutable", f"{name} cannot be changed")
        return self._put(before.id, body, "update")

    def _for_write(self, name: str, version: int | None) -> StoredResource[T]:
        self.settle()
        before = self._latest.get(name)
        if before is None:
            raise self._missing(name)
        if version is not None and before.version != version:
            raise ServiceRefusal(412, "changed", f"{self.declared.name} {name} was changed meanwhile")
        if any(one.resource == name and not one.done for one in self.operations.values()):
            raise ServiceRefusal(409, "busy", f"an operation of {self.declared.name} {name} is under way")
        return before

    def _put(self, name: str, body: Mapping[str, Any], verb: str) -> StoredResource[T]:
        operations = self.declared.operations
        if operations is not None and verb != "delete":
            body = self._in_state(body, operations.creating if verb == "create" else operations.updating)
        value, before = self.decoded(body), self._latest.get(name)
        number = len(self.changes) + 1 if before is None else before.number
        after = StoredResource(name, value, 1 if before is None else before.version + 1, number)
        self._change(before, after)
        if operations is not None:
            self._begin(verb, name, operations.takes)
        return after

    def _begin(self, verb: str, name: str, takes: Span) -> None:
        operation = f"op-{self.declared.name}-{len(self.operations) + 1}"
        ends = self._now() + self._draw(takes)
        fails, self.next_fails = self.next_fails, False
        self.operations[operation] = ServiceOperation(operation, verb, name, ends, fails)
        self.late_until = max(self.late_until, ends + self.declared.visible_after[1])

    @property
    def last_operation(self) -> ServiceOperation:
        """The one that began last. Raises LookupError if there was none."""
        if not self.operations:
            raise LookupError(f"no operation of {self.declared.name} has begun")
        return list(self.operations.values())[-1]

    def settle(self) -> None:
        """End the operations whose time has come."""
        operations = self.declared.operations
        if operations is None:
            return
        now = self._now()
        due = [one for one in self.operations.values() if not one.done and one.ends <= now]
        for one in sorted(due, key=lambda one: one.ends):
            self.operations[one.id] = evolve(one, done=True)
            before = self._latest[one.resource]
            if one.verb == "delete" and not one.fails:
                self._change(before, None, at=one.ends)
                continue
            state = operations.failed if one.fails else operations.ready
            value = self.decoded(self._in_state(self.body_of(before.value), state))
            if value != before.value:
                self._change(before, evolve(before, value=value, version=before.version + 1), at=one.ends)

    def _change(
        self, old: StoredResource[T] | None, new: StoredResource[T] | None, at: float | None = None
    ) -> None:
        at = self._now() if at is None else at
        changed = old if new is None else new
        assert changed is not None
        name = changed.id
        visible_at = at + (self._draw(self.declared.visible_after) if self.declared.is_late else 0.0)
        for earlier in reversed(self.changes):
            if earlier.id == name:
                visible_at = max(visible_at, earlier.visible_at)
                break
        self.late_until = max(self.late_until, visible_at)
        self.changes.append(ResourceChange(at, visible_at, name, old, new))
        if self.on_change is not None:
            self.on_change()
        if new is None:
            assert old is not None
            del self._latest[name]
            self.deletes[self.identity_of(old.value)] += 1
            return
        self._latest[name] = new
        if old is None:
            self.creates[self.identity_of(new.value)] += 1

    # --- values -----------------------------------------------------------------------------------

    def body_of(self, value: T | Mapping[str, Any]) -> dict[str, Any]:
        """A value as it is on the wire."""
        if isinstance(value, Mapping):
            return dict(value)
        body: dict[str, Any] = msgspec.to_builtins(value)
        return body

    def decoded(self, body: Mapping[str, Any]) -> T:
        """The value of a body from the wire. Raises ServiceRefusal (422) if it does not fit the kind."""
        try:
            value = msgspec.convert(body, self.declared.kind)
        except msgspec.ValidationError as error:
            raise ServiceRefusal(422, "invalid", str(error)) from None
        unknown = sorted(body.keys() - msgspec.to_builtins(value).keys())
        if unknown:
            raise ServiceRefusal(422, "invalid", f"unknown fields: {', '.join(unknown)}")
        return value

    def identity_of(self, value: T) -> str:
        """The same for resources of which only one should exist."""
        if self.declared.identity is not None:
            return str(self.declared.identity(value))
        if self.declared.client_names:
            return str(self.body_of(value)[self.declared.id])
        return "*"

    def compared(self, value: T) -> dict[str, Any]:
        """What of a value is compared between runs: not its id, nor what `passing` names."""
        left_out = (
            self.declared.passing
            if self.declared.client_names
            else (*self.declared.passing, self.declared.id)
        )
        return {name: part for name, part in self.body_of(value).items() if name not in left_out}

    def pending(self) -> Iterator[str]:
        """What has happened and is not seen yet, and the operations under way."""
        self.settle()
        now = self._now()
        for change in self.changes:
            if change.visible_at > now:
                yield f"{change.id} {change.what}, not seen yet"
        for one in self.operations.values():
            if not one.done:
                yield f"{one.verb} of {one.resource} under way"

    def _in_state(self, body: Mapping[str, Any], word: str) -> dict[str, Any]:
        operations = self.declared.operations
        assert operations is not None
        return dict(body) if operations.state is None else {**body, operations.state: word}

    def _missing(self, name: str) -> ServiceRefusal:
        return ServiceRefusal(404, "not_found", f"{self.declared.name} {name} does not exist")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
