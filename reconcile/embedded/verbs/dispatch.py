"""The function that carries out a request, chosen by the verb that was authorised."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from informers.transport import Response
from reconcile.embedded.api import ApiRequest, RequestTarget
from reconcile.embedded.engine import Engine
from reconcile.embedded.protocol.request_info import RequestInfo
from reconcile.embedded.refusals import (
    bad_request,
    method_not_allowed,
    no_such_resource,
    not_found,
    page_not_found,
)
from reconcile.embedded.verbs import (
    connecting,
    deletion,
    eviction,
    patch_requests,
    reads,
    reviewing,
    subresources,
    writes,
)
from reconcile.embedded.verbs.watching import WatchStream

Answer = Response | WatchStream
Act = Callable[[Engine, ApiRequest, RequestTarget], Answer | Coroutine[Any, Any, Answer]]
"""Reads answer at once, unless conversion waits. Writes are coroutines, since admission may wait."""

_UNSUPPORTED: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})
_OBJECT_ACTS: Final[Mapping[str, Act]] = {
    "get": reads.get,
    "watch": reads.watch,
    "update": writes.update,
    "patch": patch_requests.patch,
    "delete": deletion.delete,
}
_PART_ACTS: Final[Mapping[str, Act]] = {
    "get": reads.get,
    "update": writes.update,
    "patch": patch_requests.patch,
}
_SCALE_ACTS: Final[Mapping[str, Act]] = {
    "get": subresources.get_scale,
    "update": subresources.put_scale,
    "patch": subresources.patch_scale,
}
_OTHER_ACTS: Final[Mapping[tuple[str, str, str], Mapping[str, Act]]] = {
    ("", "namespaces", "finalize"): {"update": writes.update},
    ("", "pods", "binding"): {"create": subresources.bind},
    ("", "pods", "ephemeralcontainers"): _PART_ACTS,
    ("", "pods", "eviction"): {"create": eviction.evict},
    ("", "pods", "resize"): _PART_ACTS,
    ("", "serviceaccounts", "token"): {"create": reviewing.request_token},
}


def act_for(info: RequestInfo, request: ApiRequest, target: RequestTarget) -> Act:
    """The function for the verb of `info` on `target`. Raises the matching 404 or 405 if there is none."""
    if request.method == "HEAD":
        raise method_not_allowed()
    if target.resource.create_only:
        return _review_act(info.verb, target)
    if target.subresource:
        return _subresource_act(info.verb, target)
    if target.name:
        return _object_act(info.verb, target)
    return _collection_act(info.verb, target)


def _review_act(verb: str, target: RequestTarget) -> Act:
    if target.name:
        raise no_such_resource()
    if verb != "create" or (target.resource.namespaced and not target.namespace):
        raise method_not_allowed()
    return reviewing.review


def _collection_act(verb: str, target: RequestTarget) -> Act:
    resource = target.resource
    clusterwide = resource.namespaced and not target.namespace
    match verb:
        case "list":
            return reads.list_objects
        case "watch":
            return reads.watch
        case _ if clusterwide:
            raise page_not_found() if resource.custom else method_not_allowed()
        case "create":
            return writes.create
        case "deletecollection" if resource.collection_deletable:
            return deletion.delete_collection
        case "update" | "patch" if resource.custom:
            raise bad_request("name must be provided")
        case _:
            raise method_not_allowed()


def _object_act(verb: str, target: RequestTarget) -> Act:
    if verb == "create" and target.resource.custom:
        return writes.create
    if verb not in _OBJECT_ACTS:
        raise method_not_allowed()
    return _OBJECT_ACTS[verb]


def _subresource_act(verb: str, target: RequestTarget) -> Act:
    resource, subresource = target.resource, target.subresource
    if subresource == "status" and resource.has_status:
        acts = _PART_ACTS
    elif subresource == "scale" and resource.scale is not None:
        acts = _SCALE_ACTS
    elif (resource.group, resource.plural, subresource) in _OTHER_ACTS:
        acts = _OTHER_ACTS[resource.group, resource.plural, subresource]
    elif not resource.custom and subresource.partition("/")[0] in _UNSUPPORTED:
        if not resource.group and (resource.plural, subresource.partition("/")[0]) in connecting.CONNECTABLE:
            return connecting.connect
        raise connecting.not_served(target)
    else:
        raise not_found(resource, target.name) if resource.custom else no_such_resource()
    if verb not in acts:
        raise method_not_allowed()
    return acts[verb]
