"""Strategic merge patches, which `kubectl apply` and `kubectl patch` send for built-in kinds."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from reconcile.embedded.refusals import bad_request, bare_server_error
from reconcile.embedded.schema.json_values import quoted
from reconcile.embedded.schema.schema_nodes import ANYTHING, SchemaNode

_PATCH: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_SET_ORDER: Final = "$setElementOrder/"
_DELETE_SCALARS: Final = "$deleteFromPrimitiveList/"

Members = dict[str, Any]
KeyOf = Callable[[Any], str]


def merge_maps(original: Members, patch: Members, node: SchemaNode) -> Members:
    """Merge `patch` into `original`; both may be changed, and the result shares parts with them.

    Raises ApiFailure: 400 for a malformed patch, 500 for an item without its merge key.
    """
    if _PATCH in patch:
        return _directed(patch)
    _retain_keys(original, patch)
    _order_lists(original, patch, node)
    for name, value in patch.items():
        if name.startswith(_DELETE_SCALARS):
            _delete_scalars(original, name.removeprefix(_DELETE_SCALARS), value)
        elif value is None:
            original.pop(name, None)
        elif name in original and type(original[name]) is type(value):
            original[name] = _merge_values(original[name], value, node.child(name) or ANYTHING)
        elif not (isinstance(value, dict) and _PATCH in value and name not in original):
            original[name] = _plain(value)
    return original


def _directed(patch: Members) -> Members:
    match patch.pop(_PATCH):
        case "replace":
            replacement: Members = _plain(patch)
            return replacement
        case "delete":
            return {}
        case other:
            raise bare_server_error(f"Unknown patch type: {quoted(other)} found in {quoted(patch)}")


def _retain_keys(original: Members, patch: Members) -> None:
    if _RETAIN_KEYS not in patch:
        return
    retained = patch.pop(_RETAIN_KEYS)
    if not isinstance(retained, list):
        raise bad_request("invalid patch format of retainKeys")
    fields = [name for name, value in patch.items() if not name.startswith("$") and value is not None]
    if not set(fields) <= set(retained):
        raise bad_request("patch contains fields not in retainKeys list")
    for name in original.keys() - set(retained):
        del original[name]


def _order_lists(original: Members, patch: Members, node: SchemaNode) -> None:
    """Merge and order the lists that `$setElementOrder` names, and remove them from the patch."""
    for directive in [name for name in patch if name.startswith(_SET_ORDER)]:
        order = patch.pop(directive)
        name = directive.removeprefix(_SET_ORDER)
        if not isinstance(order, list):
            raise bad_request("invalid patch format of setElementOrder list")
        live, changes = original.get(name), patch.pop(name, None)
        if live is None and changes is None:
            continue
        child = node.child(name) or ANYTHING
        merged = _merge_values(live, changes, child) if live and changes else _plain(live or changes)
        key_of = _key_of(child)
        original[name] = _ordered(merged, order, live or [], key_of)


def _delete_scalars(original: Members, name: str, values: Any) -> None:
    if not isinstance(values, list):
        raise bad_request("invalid patch format of primitive list")
    if name not in original:
        return
    kept = [item for item in original[name] if item not in values]
    if kept:
        original[name] = kept
    else:
        del original[name]


def _merge_values(original: Any, patch: Any, node: SchemaNode) -> Any:
    if isinstance(patch, dict):
        replaced = "replace" in node.patch_strategies
        return _plain(patch) if replaced else merge_maps(original, patch, node)
    if isinstance(patch, list):
        merges = "merge" in node.patch_strategies
        return _merge_lists(original, patch, node) if merges else _plain(patch)
    return patch


def _merge_lists(original: list[Any], patch: list[Any], node: SchemaNode) -> list[Any]:
    key_of = _key_of(node)
    if not node.patch_merge_key:
        merged = list({key_of(item): item for item in [*original, *patch]}.values())
        return _ordered(merged, patch, original, key_of)
    original, patch = _without_directives(original, patch, key_of)
    merged = list(original)
    places: dict[str, int] = {}
    for index, item in enumerate(merged):
        places.setdefault(key_of(item), index)
    for item in patch:
        place = places.get(key_of(item))
        if place is None:
            places[key_of(item)] = len(merged)
            merged.append(_plain(item))
        else:
            merged[place] = merge_maps(merged[place], item, node.item())
    return _ordered(merged, patch, original, key_of)


def _without_directives(original: list[Any], patch: list[Any], key_of: KeyOf) -> tuple[list[Any], list[Any]]:
    """Carry out the items with `$patch: delete` or `$patch: replace`."""
    plain = [item for item in patch if not (isinstance(item, dict) and _PATCH in item)]
    deleted: set[str] = set()
    replaced = False
    for item in patch:
        match item.get(_PATCH) if isinstance(item, dict) else None:
            case None:
                continue
            case "delete":
                deleted.add(key_of(item))
            case "replace":
                replaced = True
            case other:
                raise bare_server_error(f"Unknown patch type: {quoted(other)} found in {quoted(item)}")
    kept = [] if replaced else [item for item in original if key_of(item) not in deleted]
    return kept, plain


def _ordered(merged: Sequence[Any], order: Sequence[Any], live: Sequence[Any], key_of: KeyOf) -> list[Any]:
    """Order the items of `order` as there, and put the others among them as in `live`.

    An item of `order` that `live` lacks comes before the others.
    """
    places: dict[str, int] = {}
    for index, item in enumerate(live):
        places.setdefault(key_of(item), index)
    rank = {key_of(item): index for index, item in enumerate(order)}
    named = [item for item in merged if key_of(item) in rank]
    named.sort(key=lambda item: rank[key_of(item)])
    others = [item for item in merged if key_of(item) not in rank]
    others.sort(key=lambda item: places.get(key_of(item), len(places)))
    result: list[Any] = []
    while named and others:
        place, other_place = places.get(key_of(named[0])), places.get(key_of(others[0]))
        before = place is not None and other_place is not None and other_place < place
        result.append((others if before else named).pop(0))
    return [*result, *named, *others]


def _key_of(node: SchemaNode) -> KeyOf:
    merge_key = node.patch_merge_key
    if not merge_key:
        return quoted

    def key_of(item: Any) -> str:
        if not isinstance(item, dict) or merge_key not in item:
            raise bare_server_error(f"map: {quoted(item)} does not contain declared merge key: {merge_key}")
        return quoted(item[merge_key])

    return key_of


def _plain(value: Any) -> Any:
    """A new value, without nulls and directives."""
    if isinstance(value, dict):
        return {
            name: _plain(member)
            for name, member in value.items()
            if member is not None
            and name not in (_PATCH, _RETAIN_KEYS)
            and not name.startswith((_SET_ORDER, _DELETE_SCALARS))
        }
    if isinstance(value, list):
        return [
            _plain(item) for item in value if not (isinstance(item, dict) and item.get(_PATCH) == "delete")
        ]
    return value
