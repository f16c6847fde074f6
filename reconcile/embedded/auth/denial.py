"""The 401 and the 403 of the API."""

from reconcile.embedded.auth.attributes import Attributes
from reconcile.embedded.protocol.api_failure import ApiFailure


def unauthorized() -> ApiFailure:
    """401: the request has no known user."""
    return ApiFailure(401, "Unauthorized", "Unauthorized")


def access_denied(attributes: Attributes, reason: str = "") -> ApiFailure:
    """403: known, but not allowed."""
    why = _described(attributes) + (f": {reason}" if reason else "")
    resource, name = attributes.resource, attributes.name
    qualified = f"{resource}.{attributes.group}" if attributes.group else resource
    quoted = f' "{name}"' if name else ""
    message = f"{qualified}{quoted} is forbidden: {why}" if resource else f"forbidden: {why}"
    details = {"name": name, "group": attributes.group, "kind": resource}
    return ApiFailure(403, "Forbidden", message, {field: value for field, value in details.items() if value})


def _described(attributes: Attributes) -> str:
    who, verb = attributes.user.name, attributes.verb
    if not attributes.resource:
        return f'User "{who}" cannot {verb} path "{attributes.path}"'
    what = f'resource "{attributes.full_resource}" in API group "{attributes.group}"'
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    return f'User "{who}" cannot {verb} {what} {where}'
