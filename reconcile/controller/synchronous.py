"""The blocking context and client of a reconciler that is a plain function.

It runs in a thread. Each call that concerns the cluster is done in the event loop, as a part of the same run,
while the thread waits; so the promises of `Client` and `Context` hold here too. After the run has ended, each
call raises `RunEnded`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from attrs import frozen

from reconcile.client.client import Client, ClientView, core_of
from reconcile.client.raw_client import RawClient
from reconcile.client.sender import FieldValidation
from reconcile.controller.blocking import Ask
from reconcile.controller.context import Context, RunContext
from reconcile.models import Object

T = TypeVar("T", bound=Object)
P = ParamSpec("P")
R = TypeVar("R")


def blocking(method: Callable[Concatenate[Any, P], Awaitable[R]]) -> Callable[Concatenate[Any, P], R]:
    """The method of `waiting`, done in the event loop while the caller waits."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        ask: Ask = self._ask
        return ask(lambda: method(self.waiting, *args, **kwargs))

    return call


def blocking_iterator(
    method: Callable[Concatenate[Any, P], AsyncIterator[R]],
) -> Callable[Concatenate[Any, P], Iterator[R]]:
    """As `blocking`, one item at a time."""

    @wraps(method)
    def iterate(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        ask: Ask = self._ask
        items = method(self.waiting, *args, **kwargs)
        while True:
            try:
                yield ask(lambda: anext(items))
            except StopAsyncIteration:
                return

    return iterate


def blocking_context(
    method: Callable[Concatenate[Any, P], AbstractAsyncContextManager[R]],
) -> Callable[Concatenate[Any, P], AbstractContextManager[R]]:
    """As `blocking`, for the beginning and the end of a `with`."""

    @wraps(method)
    @contextmanager
    def enter(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        ask: Ask = self._ask
        manager = method(self.waiting, *args, **kwargs)
        entered = ask(lambda: manager.__aenter__())
        try:
            yield entered
        except BaseException as error:
            raised = (type(error), error, error.__traceback__)
            if not ask(lambda: manager.__aexit__(*raised)):
                raise
            return
        ask(lambda: manager.__aexit__(None, None, None))

    return enter


@frozen
class SyncRawClient:
    """`RawClient` (which is `waiting`) with methods that block."""

    waiting: RawClient
    _ask: Ask

    snapshot = blocking(RawClient.snapshot)
    snapshots = blocking(RawClient.snapshots)
    read_subresource = blocking(RawClient.read_subresource)
    managed_fields = blocking(RawClient.managed_fields)
    version = blocking(RawClient.version)
    unstructured = blocking(RawClient.unstructured)
    patch = blocking(RawClient.patch)
    merge = blocking(RawClient.merge)
    update = blocking(RawClient.update)
    create_subresource = blocking(RawClient.create_subresource)
    apply_scale = blocking(RawClient.apply_scale)
    set_scale = blocking(RawClient.set_scale)
    delete_snapshot = blocking(RawClient.delete_snapshot)
    delete_all = blocking(RawClient.delete_all)


class SyncClient(ClientView):
    """`Client` with methods that block; `waiting` is the client that does the work.

    Functions that are passed (`change`, `decide`) run in the event loop: they must not block. There is no
    `watch`, as its events would wait for code that blocks elsewhere.
    """

    def __init__(self, waiting: Client, ask: Ask) -> None:
        self._core = core_of(waiting)
        self.waiting = waiting
        self._ask = ask

    @property
    def raw(self) -> SyncRawClient:
        """Further requests: custom patches, subresources, whole objects, stored states."""
        return SyncRawClient(self.waiting.raw, self._ask)

    def with_options(
        self,
        *,
        namespace: str | None = None,
        field_manager: str | None = None,
        dry_run: bool | None = None,
        field_validation: FieldValidation | None = None,
    ) -> "SyncClient":
        """A view of the same client with another namespace, field manager, validation, or for dry runs."""
        view = self.waiting.with_options(
            namespace=namespace,
            field_manager=field_manager,
            dry_run=dry_run,
            field_validation=field_validation,
        )
        return SyncClient(view, self._ask)

    get = blocking(Client.get)
    find = blocking(Client.find)
    list = blocking(Client.list)
    pages = blocking_iterator(Client.pages)
    apply = blocking(Client.apply)
    create = blocking(Client.create)
    modify = blocking(Client.modify)
    editing = blocking_context(Client.editing)
    scale = blocking(Client.scale)
    delete = blocking(Client.delete)


class SyncContext(RunContext[T]):
    """`Context` of a plain function: its methods and `client` block; `waiting` does the work."""

    waiting: Context[T]
    _ask: Ask

    def __init__(self, waiting: Context[T], ask: Ask) -> None:
        vars(self).update(vars(waiting), waiting=waiting, _ask=ask)

    @property
    def client(self) -> SyncClient:
        """Reads and writes for this key."""
        return SyncClient(self.waiting.client, self._ask)

    def client_of(self, cluster: str) -> SyncClient:
        """The client of another of `Manager(clusters=)`, for this key. LookupError for an unknown one."""

        async def there() -> Client:
            return self.waiting.client_of(cluster)

        # In the event loop, since it notes the cluster for the key, as other runs do at the same time.
        return SyncClient(self._ask(there), self._ask)

    owned = blocking(Context.owned)
    apply = blocking(Context.apply)
    create = blocking(Context.create)
    delete = blocking(Context.delete)
    generate_once = blocking(Context.generate_once)
