"""What a ResourceQuota can limit, by name."""

from typing import Any

_BY_NAME = frozenset(
    {
        "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas",
        "secrets", "services",
    }
)  # fmt: skip


def counted_resource(name: str) -> tuple[str, str] | None:
    """Group and plural of what `pods` or `count/deployments.apps` counts; None for anything but a count."""
    if name in _BY_NAME:
        return ("", name)
    if not name.startswith("count/"):
        return None
    plural, _, group = name.removeprefix("count/").partition(".")
    return (group, plural)


def warn_of_uncounted(quota: dict[str, Any]) -> list[str]:
    """Say which limits have no effect."""
    spec = quota.get("spec") or {}
    if spec.get("scopes") or spec.get("scopeSelector"):
        return ["spec.scopes: the embedded server does not evaluate scopes; this quota has no effect"]
    return [
        f"spec.hard[{name}]: the embedded server counts objects only; this limit has no effect"
        for name in sorted(spec.get("hard") or {})
        if counted_resource(name) is None
    ]
