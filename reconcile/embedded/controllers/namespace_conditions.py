"""The conditions of a namespace whose deletion cannot go on (namespaced_resources_deleter.go)."""

from typing import Any, Final

from reconcile.embedded.kinds.custom_definitions import set_condition

_CONDITIONS: Final = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    ("NamespaceDeletionContentFailure", "ContentDeleted", "All content successfully deleted"),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
)
_FAILED: Final = "NamespaceDeletionContentFailure"


def set_content_failure(namespace: dict[str, Any], unreadable: list[str], now: str) -> None:
    """Say in the status which resources could not be deleted."""
    status = namespace.setdefault("status", {})
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    for kind, reason, message in _CONDITIONS:
        set_condition(conditions, kind, "False", reason, message, now)
    why = f"Failed to delete all resource types, {len(unreadable)} remaining: {', '.join(unreadable)}"
    set_condition(conditions, _FAILED, "True", "ContentDeletionFailed", why, now)
    status["conditions"] = list(conditions.values())
