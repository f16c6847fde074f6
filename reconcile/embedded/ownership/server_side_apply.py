"""Server-side apply and the tracking of updates, by the rules of the API server's field manager."""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from attrs import evolve, frozen

from reconcile.embedded.ownership.field_sets import NO_FIELDS, FieldSet, path_text
from reconcile.embedded.ownership.managed_fields import (
    APPLY,
    UNTRACKED,
    UPDATE,
    FieldManager,
    FieldManagers,
    Ownership,
    capped,
    decode,
    encode,
    manager_for,
    owned_by_all,
    released,
    tracked,
    tracked_part,
)
from reconcile.embedded.ownership.manager_versions import ONE_VERSION, UnknownVersion, Versions
from reconcile.embedded.ownership.typed_values import (
    Comparison,
    SchemaMismatch,
    check_typed,
    compare,
    field_set,
    merge,
    new_fields,
    reconciled,
    remove,
    with_named_fields,
)
from reconcile.embedded.protocol.api_failure import ApiFailure, FieldCause
from reconcile.embedded.schema import ResourceSchema
from reconcile.embedded.schema.json_values import copied
from reconcile.embedded.schema.schema_nodes import SchemaNode

_BEFORE_FIRST_APPLY: Final = "before-first-apply"
_KUBECTL: Final = "kubectl"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_ROOT_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})


def _time_of(subresource: str, time: str) -> str:
    """A real server keeps no times of managers of the scale (ScaleHandler.ToParent)."""
    return "" if subresource == "scale" else time


def apply(
    live: dict[str, Any] | None,
    intent: dict[str, Any],
    *,
    schema: ResourceSchema,
    manager: str,
    force: bool,
    subresource: str,
    api_version: str,
    time: str,
    reset: Collection[str] = (),
    versions: Versions = ONE_VERSION,
) -> dict[str, Any]:
    """The object after `manager` applies `intent` to `live`, with its managedFields.

    Fields that the manager applied before and no longer names are removed, unless another manager owns them.
    If nothing changes, managedFields keep their times. `reset` names members that this request may not
    change, such as `status` and `metadata.labels`, and drops them from the intent; the subresource `status`
    drops all but metadata and itself.

    Raises:
        ApiFailure: 409 with a cause FieldManagerConflict for each field of another manager that would change,
            unless `force`; 500 without a reason if the schema does not describe `intent`.
    """
    wanted = _without_reset(intent, subresource, reset)
    node = schema.whole
    try:
        check_typed(node, intent)
        owner = manager_for(manager, APPLY, api_version, subresource)
        edit = _Edit(node, owner, api_version, _time_of(subresource, time), versions)
        visible = _without_reset(_unmanaged(live), subresource, reset) if live is not None else {}
        return _apply(live, wanted, edit, _Beside(intent, visible, schema.zero), force=force)
    except UnknownVersion as unknown:
        raise ApiFailure(500, "", str(unknown)) from None
    except SchemaMismatch as mismatch:
        metadata = intent.get("metadata") or {}
        place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        kind = f"{api_version}, Kind={intent.get('kind', '')}"
        message = f"failed to create typed patch object ({place}; {kind}): {mismatch}"
        raise ApiFailure(500, "", message) from None


def track_update(
    old: dict[str, Any] | None,
    new: dict[str, Any],
    *,
    schema: ResourceSchema,
    manager: str,
    subresource: str,
    api_version: str,
    time: str,
    versions: Versions = ONE_VERSION,
    beside: Mapping[str, Any] | None = None,
) -> None:
    """Set `new`'s managedFields for a write that is not an apply: `manager` owns the changed fields.

    `old` is None for a create. managedFields from the client replace the stored ones, and `[{}]` drops them,
    but not in a subresource. An object without any stays without. As on a real server, an item of a keyed
    list that lacks its key ends the tracking of its object. `beside` has the members that the client sent,
    but this endpoint keeps (None: it left them out): managers in another version lose what would have changed
    there, since a real server knows what an endpoint resets in its own version only (GetResetFields).
    """
    sent = new["metadata"].pop("managedFields", None)
    stored = old["metadata"].get("managedFields") if old is not None else None
    replacing = not subresource and sent
    owner = manager_for(manager, UPDATE, api_version, subresource)
    edit = _Edit(schema.whole, owner, api_version, _time_of(subresource, time), versions)
    try:
        managers = (edit.decoded(sent) if replacing else {}) or edit.decoded(stored)
        if (replacing and sent == [{}]) or (not managers and old is not None):
            return
        if managers or old is not None:
            updated = _updated(managers, _unmanaged(old) if old is not None else {}, new, edit)
        else:
            updated = _owned_from_the_start(schema.zero, new, edit)
        if beside and old is not None:
            updated = _without_kept(updated, old, beside, edit)
    except SchemaMismatch:
        return
    if entries := encode(updated):
        new["metadata"]["managedFields"] = entries


@frozen
class _Edit:
    """A write by `owner`, and the schema of its object."""

    node: SchemaNode
    owner: FieldManager
    api_version: str
    time: str
    versions: Versions = ONE_VERSION

    def changes(
        self, managers: FieldManagers, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> dict[str, Comparison]:
        """What differs, in the version of each manager and in that of the edit.

        Raises SchemaMismatch if the version of a manager does not declare a field of the objects.
        """
        own = compare(self.node, before, after)
        found = {self.api_version: own}
        for version in sorted({owned.api_version for owned in managers.values()} - {self.api_version}):
            node = self.versions.node_of(version)
            if node is None:
                found[version] = own
                continue
            old, new = (self.form_in(obj, version) for obj in (before, after))
            for obj in (old, new):
                check_typed(node, obj, unique=False)
            found[version] = compare(node, old, new)
        return found

    def decoded(self, entries: Any) -> FieldManagers:
        """The managers, with fields as their version has them now; none if the entries cannot be read."""
        try:
            managers = decode(entries or [])
        except ValueError:
            return {}
        return {
            manager: owned.with_fields(reconciled(owned.fields, self.node_in(owned.api_version)))
            for manager, owned in managers.items()
        }

    def node_in(self, api_version: str) -> SchemaNode:
        if api_version == self.api_version:
            return self.node
        return self.versions.node_of(api_version) or self.node

    def form_in(self, obj: Mapping[str, Any], api_version: str) -> Mapping[str, Any]:
        """An object of any version in another one."""
        if obj.get("apiVersion") == api_version:
            return obj
        return self.versions.form_in(obj, api_version)


@frozen
class _Beside:
    """What an apply has to do with the fields that its endpoint resets."""

    intent: dict[str, Any]
    """With them: their changes count for the time of the manager."""
    visible: dict[str, Any]
    """The live object without them, of which the first apply makes a manager."""
    zero: Mapping[str, Any]
    """An empty object of the Go type."""


def _owned_from_the_start(zero: Mapping[str, Any], new: dict[str, Any], edit: _Edit) -> FieldManagers:
    """What `_updated` returns for a new object, in one walk.

    `zero` is what the real server compares with: an empty object of the Go type.
    """
    fields = new_fields(edit.node, zero, tracked_part(new))
    if not fields:
        return {}
    metadata = fields.children.get("f:metadata")
    if metadata is not None:
        fields = FieldSet(False, {**fields.children, "f:metadata": FieldSet(False, metadata.children)})
    return {edit.owner: Ownership(fields, edit.api_version, edit.time)}


def _without_kept(
    managers: FieldManagers, old: Mapping[str, Any], beside: Mapping[str, Any], edit: _Edit
) -> FieldManagers:
    elsewhere = {
        manager: owned for manager, owned in managers.items() if owned.api_version != edit.api_version
    }
    if not elsewhere:
        return managers
    before = {name: old[name] for name in beside if old.get(name) is not None}
    change = compare(edit.node, before, {name: value for name, value in beside.items() if value is not None})
    lost = change.added.union(change.modified).union(change.removed)
    left = released(elsewhere, lost, keeper=None)
    return {
        manager: left.get(manager, owned)
        for manager, owned in managers.items()
        if manager not in elsewhere or manager in left
    }


def _unmanaged(obj: Mapping[str, Any]) -> dict[str, Any]:
    """A copy without managedFields that shares everything but its metadata."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def _updated(managers: FieldManagers, old: dict[str, Any], new: dict[str, Any], edit: _Edit) -> FieldManagers:
    owner = edit.owner
    changes = edit.changes(managers, old, new)
    change = changes[edit.api_version]
    taken = change.added.union(change.modified)
    result = dict(tracked(_released(managers, changes, keeper=None)))
    mine = taken.difference(UNTRACKED)
    if mine:
        kept = managers[owner].fields.difference(change.removed) if owner in managers else NO_FIELDS
        result[owner] = Ownership(mine.union(kept.difference(UNTRACKED)), edit.api_version, edit.time)
    return capped(result)


def _apply(
    live: dict[str, Any] | None, intent: dict[str, Any], edit: _Edit, beside: _Beside, *, force: bool
) -> dict[str, Any]:
    node, owner, api_version, time = edit.node, edit.owner, edit.api_version, edit.time
    if live is None:
        mine = Ownership(field_set(node, tracked_part(intent)), api_version, time)
        return _applied(intent, intent, {owner: mine} if mine.fields else {}, owner)
    before = _unmanaged(live)
    managers = edit.decoded(live["metadata"].get("managedFields"))
    if not managers:
        first = manager_for(_BEFORE_FIRST_APPLY, UPDATE, api_version, owner.subresource)
        managers = _owned_from_the_start(beside.zero, beside.visible, evolve(edit, owner=first))
    merged = merge(node, before, intent)
    mine = Ownership(field_set(node, intent), api_version, managers[owner].time if owner in managers else "")
    applied = {**managers, owner: mine}
    if owner in managers:
        # Merged once more, since pruning also empties what the intent wants to be empty.
        merged = merge(node, _pruned(edit, merged, applied, managers[owner]), intent)
    changes = edit.changes(applied, before, merged)
    if not force:
        _check_conflicts(applied, changes, owner, _applied_by_kubectl(before, node, owner))
    result = dict(tracked(_released(applied, changes, keeper=owner)))
    if owner in result and (
        changes[api_version] or compare(node, before, merge(node, before, _unmanaged(beside.intent)))
    ):
        result[owner] = Ownership(result[owner].fields, api_version, time)
    return _applied(merged, intent, result, owner)


def _applied(
    merged: dict[str, Any], intent: dict[str, Any], managers: FieldManagers, owner: FieldManager
) -> dict[str, Any]:
    obj: dict[str, Any] = copied(merged)
    if owner.name == _KUBECTL and _annotation(obj):
        obj["metadata"]["annotations"][_LAST_APPLIED] = _last_applied(intent)
    if entries := encode(managers):
        obj.setdefault("metadata", {})["managedFields"] = entries
    return obj


def _released(
    managers: FieldManagers, changes: Mapping[str, Comparison], keeper: FieldManager | None
) -> FieldManagers:
    """The managers after all but `keeper` lose what changed, each by the names of its own version."""
    left: dict[FieldManager, Ownership] = {}
    for version, change in changes.items():
        lost = change.added.union(change.modified).union(change.removed)
        of_version = {manager: owned for manager, owned in managers.items() if owned.api_version == version}
        left |= released(of_version, lost, keeper)
    return {manager: left[manager] for manager in managers if manager in left}


def _pruned(edit: _Edit, merged: dict[str, Any], managers: FieldManagers, last: Ownership) -> Any:
    """`merged` without the fields that the applier owned before and that have no owner now.

    It is pruned in the version of the last apply, and what others own is put back in theirs.
    """
    home, node = last.api_version, edit.node_in(last.api_version)
    whole = edit.form_in(merged, home)
    owned = with_named_fields(last.fields, node)
    everything = _named_fields_of(node, whole)
    kept, pruned = whole, remove(node, whole, owned)
    others = {ownership.api_version for ownership in managers.values()} - {home}
    for version in (home, *sorted(others)):
        theirs = owned_by_all({m: o for m, o in managers.items() if o.api_version == version})
        if not theirs:
            continue
        kept, pruned = edit.form_in(kept, version), edit.form_in(pruned, version)
        there = edit.node_in(version)
        remaining = _named_fields_of(there, pruned).union(with_named_fields(theirs, there))
        pruned = remove(there, kept, _named_fields_of(there, kept).difference(remaining))
    dropped = everything.difference(_named_fields_of(node, edit.form_in(pruned, home))).intersection(owned)
    return edit.form_in(remove(node, whole, dropped), edit.api_version)


def _named_fields_of(node: SchemaNode, obj: Mapping[str, Any]) -> FieldSet:
    return with_named_fields(field_set(node, obj), node)


def _check_conflicts(
    managers: FieldManagers, changes: Mapping[str, Comparison], owner: FieldManager, allowed: FieldSet
) -> None:
    conflicts: list[tuple[FieldManager, Ownership, str]] = []
    for manager, ownership in managers.items():
        if manager == owner:
            continue
        change = changes[ownership.api_version]
        taken = change.added.union(change.modified)
        disputed = ownership.fields.intersection(taken).difference(allowed)
        conflicts.extend((manager, ownership, path_text(path)) for path in disputed.paths())
    if conflicts:
        raise _conflict(conflicts)


def _conflict(conflicts: list[tuple[FieldManager, Ownership, str]]) -> ApiFailure:
    causes = [
        FieldCause("FieldManagerConflict", f"conflict with {_described(manager, ownership)}", path)
        for manager, ownership, path in conflicts
    ]
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
        return ApiFailure(409, "Conflict", message, {}, causes)
    lines: list[str] = []
    for told in dict.fromkeys(cause.message for cause in causes):
        lines.append(f"{told.replace('conflict', 'conflicts', 1)}:")
        lines.extend(f"- {cause.field}" for cause in causes if cause.message == told)
    message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return ApiFailure(409, "Conflict", message, {}, causes)


def _described(manager: FieldManager, ownership: Ownership) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text = f'{text} with subresource "{manager.subresource}"'
    if manager.operation == APPLY:
        return text
    when = f" at {ownership.time}" if ownership.time else ""
    return f"{text} using {ownership.api_version}{when}"


def _without_reset(intent: dict[str, Any], subresource: str, reset: Collection[str]) -> dict[str, Any]:
    wanted = {name: value for name, value in intent.items() if name == "metadata" or name not in reset}
    if subresource == "status":
        wanted = {name: value for name, value in wanted.items() if name in {*_ROOT_FIELDS, "status"}}
    metadata = wanted.get("metadata") or {}
    if "metadata" in reset:
        wanted["metadata"] = {name: metadata[name] for name in ("name", "namespace") if name in metadata}
    elif "managedFields" in metadata or reset:
        dropped = {"metadata.managedFields", *reset}
        wanted["metadata"] = {
            name: value for name, value in metadata.items() if f"metadata.{name}" not in dropped
        }
    return wanted


def _applied_by_kubectl(live: dict[str, Any], node: SchemaNode, owner: FieldManager) -> FieldSet:
    """What client-side `kubectl apply` wrote: `kubectl apply --server-side` may take it over."""
    if owner.name != _KUBECTL:
        return NO_FIELDS
    try:
        last = msgspec.json.decode(_annotation(live))
        check_typed(node, last)
        return field_set(node, last)
    except (msgspec.DecodeError, SchemaMismatch):
        return NO_FIELDS


def _last_applied(intent: dict[str, Any]) -> str:
    """kubectl's annotation for an intent; a server-side apply by kubectl updates it."""
    plain = copied(intent)
    annotations = (plain.get("metadata") or {}).get("annotations") or {}
    annotations.pop(_LAST_APPLIED, None)
    return msgspec.json.encode(plain).decode() + "\n"


def _annotation(obj: Mapping[str, Any]) -> str:
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(_LAST_APPLIED, ""))
