"""`reconcile shards`: which replica of an operator works on what, and orders to change that."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import click
import msgspec
from attrs import asdict, evolve, frozen

from informers import ApiError, HttpRequest, Key, StaleVersion, SystemClock, error_from_response
from informers.api_errors import parsed
from informers.apimachinery.name_rules import label_faults
from informers.cluster_connection import ConfigurationProblem
from informers.kubernetes import connect
from reconcile.client.buckets import BUCKET_LABEL
from reconcile.client.client import Client
from reconcile.commands.kubeconfig_options import kubeconfig_options
from reconcile.commands.problems import Problem
from reconcile.commands.served_kinds import resource_named
from reconcile.commands.shard_map import NoRing, ShardMap, map_of, places_of
from reconcile.commands.shard_orders import Order, nearest, order_of
from reconcile.commands.shard_text import described, lines, told
from reconcile.kinds import Lease
from reconcile.sharding.assignment import AssignmentError
from reconcile.sharding.member_lease import RING_LABEL
from reconcile.sharding.ring import ORDERS

ATTEMPTS = 10
"""How often an order is written that meets changes of the assignment."""


@click.command()
@click.argument("ring", metavar="[NAMESPACE/]NAME")
@click.argument("words", metavar="[ORDER]...", nargs=-1)
@kubeconfig_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def shards(
    ring: str, words: tuple[str, ...], kubeconfig: str | None, context: str | None, as_json: bool
) -> None:
    """Show which replica of an operator works on which buckets of objects.

    The ring is that of `reconcile run --sharding [NAMESPACE/]NAME`. Without an ORDER its map is shown: HELD
    are the buckets that a replica keeps, WARMING those that come to it, CLOSING those that go.

    \b
    ORDER is one of:
      drain MEMBER            have others take over what it holds
      undrain MEMBER          give it its share again
      pin BUCKET MEMBER       have that member hold that bucket
      unpin BUCKET            let any member hold it
      of KIND/NAMESPACE/NAME  say in which bucket an object is, and whose

    Replicas follow orders within seconds. The BUCKET `leader` is that of the controllers that need all
    objects.
    """
    namespace, _, name = ring.rpartition("/")
    if label_faults(name) or label_faults(namespace or "default"):
        raise Problem(f"{ring!r} does not name a ring", "write NAMESPACE/NAME, as for run --sharding")
    anyio.run(_run, kubeconfig, context, _Asked(name, namespace or "default", as_json), words)


@frozen
class _Asked:
    name: str
    namespace: str
    as_json: bool


async def _run(kubeconfig: str | None, context: str | None, asked: _Asked, words: tuple[str, ...]) -> None:
    order = None if words[:1] in ((), ("of",)) else order_of(words)
    if words[:1] == ("of",) and len(words) != 2:
        raise Problem("'of' needs one object", "write of KIND/NAMESPACE/NAME")
    try:
        async with _connected(kubeconfig, context) as client:
            if order is not None:
                await _change(client, asked, order)
            elif words:
                await _show_object(client, asked, words[1])
            else:
                found = await _read(client, asked)
                click.echo(json.dumps(told(found), indent=2) if asked.as_json else "\n".join(lines(found)))
    except ConfigurationProblem as problem:
        raise Problem(str(problem), "name another with --kubeconfig") from None
    except (ApiError, AssignmentError) as error:
        raise Problem(str(error)) from None


@asynccontextmanager
async def _connected(kubeconfig: str | None, context: str | None) -> AsyncIterator[Client]:
    transport = await connect(kubeconfig, context)
    try:
        yield Client(transport)
    finally:
        with anyio.CancelScope(shield=True):
            await transport.aclose()


async def _read(client: Client, asked: _Asked) -> ShardMap:
    """Raises Problem."""
    leases = await client.list(Lease, asked.namespace, labels=f"{RING_LABEL}={asked.name}")
    try:
        return map_of(asked.name, asked.namespace, leases, SystemClock().now())
    except NoRing as missing:
        raise Problem(f"there is no ring {missing}", await _near(client, str(missing))) from None


async def _near(client: Client, ring: str) -> str:
    """What may have been meant, if other namespaces may be read."""
    try:
        others = await client.list(Lease, labels=RING_LABEL)
    except ApiError:
        return "check the namespace and the name"
    known = sorted({f"{one.namespace}/{one.metadata.labels[RING_LABEL]}" for one in others})
    return nearest(ring, known, "rings")


async def _assigned(client: Client, asked: _Asked) -> ShardMap:
    """A ring that has an assignment. Raises Problem."""
    found = await _read(client, asked)
    if not found.buckets:
        raise Problem(f"the ring {found.ring} has no assignment yet", "start the operator first")
    return found


async def _change(client: Client, asked: _Asked, order: Order) -> None:
    for _ in range(ATTEMPTS):
        found = await _assigned(client, asked)
        orders = order.change(found)
        assert found.lease is not None
        annotations = {**found.lease.metadata.annotations, ORDERS: orders.to_text()}
        metadata = evolve(found.lease.metadata, annotations=annotations)
        try:
            # At the version that was read: the replicas write the same object.
            await client.raw.update(found.lease.replace(metadata=metadata), whole=True)
        except StaleVersion:
            continue
        click.echo(json.dumps(told(evolve(found, orders=orders)), indent=2) if asked.as_json else order.said)
        return
    raise Problem(f"the assignment of {asked.namespace}/{asked.name} changes all the time", "try again")


# --- objects --------------------------------------------------------------------------------------------


class _Metadata(msgspec.Struct):
    uid: str = ""
    labels: dict[str, str] | None = None


class _Head(msgspec.Struct):
    metadata: _Metadata


_head = msgspec.json.Decoder(_Head).decode


async def _show_object(client: Client, asked: _Asked, text: str) -> None:
    found = await _assigned(client, asked)
    metadata = await _metadata(client, text)
    places = places_of(found, metadata.uid, (metadata.labels or {}).get(BUCKET_LABEL, ""))
    if asked.as_json:
        click.echo(json.dumps({"object": text, "places": [asdict(one) for one in places]}, indent=2))
    else:
        click.echo("\n".join(described(text, place) for place in places))


async def _metadata(client: Client, text: str) -> _Metadata:
    """Raises Problem, ApiError."""
    kind, *rest = text.split("/")
    if not kind or not 1 <= len(rest) <= 2 or not all(rest):
        raise Problem(f"{text!r} names no object", "write KIND/NAMESPACE/NAME, or KIND/NAME")
    resource = await resource_named(client.transport, kind)
    if resource is None:
        raise Problem(f"the server serves no {kind}", "write a kind, its plural, or PLURAL.GROUP")
    if resource.namespaced != (len(rest) == 2):
        form = "KIND/NAMESPACE/NAME" if resource.namespaced else "KIND/NAME"
        raise Problem(f"{text!r} names no object of {resource}", f"write {form}")
    key = Key(*rest) if len(rest) == 2 else Key("", rest[0])
    path = resource.path(key.namespace, key.name)
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
    response = await client.transport.request(HttpRequest("GET", path, {}, {"accept": accept}))
    if response.status >= 400:
        raise error_from_response(response.status, response.headers, response.body, f"GET {path}")
    return parsed(_head, response.body, f"GET {path}").metadata
