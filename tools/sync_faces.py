"""Write reconcile/controller/synchronous.py: Client, RawClient and Context with methods that block.

Each public method of these classes gets a namesake that takes the same and has the event loop do it. Run
`python tools/sync_faces.py` after one of them has changed its name, its parameters or the first line of
its docstring; a test compares.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

ROOT = Path(__file__).parents[1]
Method: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
TARGET = ROOT / "reconcile" / "controller" / "synchronous.py"

QUOTE = '"'

BLOCKING = {
    "AbstractAsyncContextManager": "AbstractContextManager",
    "AsyncIterator": "Iterator",
    "Generator[None]": "AbstractContextManager[None]",
    "Client": "SyncClient",
    "RawClient": "SyncRawClient",
    "Self": '"SyncClient"',
}
"""What stands in annotations, and what a class that blocks has in its place."""

HEADER = '''"""What a reconciler that is a plain function gets: context and client with methods that block.

It runs in a thread. Each call that concerns the cluster is done in the event loop, as a part of the same
run, while the thread waits; so all that `Client` and `Context` promise holds here too. After the run has
ended, each call raises `RunEnded`.

Written by tools/sync_faces.py: change the classes there, not this file.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from typing import Any, Generic, Literal, TypeVar, overload

import structlog
from attrs import frozen

from informers import APIResource, Cache, Clock, Key, Snapshot, Transport
from reconcile.client.client import Client
from reconcile.client.editing import Draft
from reconcile.client.object_reads import PAGE
from reconcile.client.object_selectors import Fields, Labels
from reconcile.client.object_writes import Propagation
from reconcile.client.patch_types import PatchName
from reconcile.client.raw_client import RawClient
from reconcile.client.sender import FieldValidation
from reconcile.controller.blocking import Ask
from reconcile.controller.context import Context
from reconcile.models import Intent, Object, Unstructured
from reconcile.runs.run_request import Cause, Request

T = TypeVar("T", bound=Object)
O = TypeVar("O", bound=Object)  # noqa: E741

__all__ = ["SyncClient", "SyncContext", "SyncRawClient"]
'''

PAGES = """
        pages = self.waiting.pages({given})
        while True:
            try:
                yield self._ask(lambda: anext(pages))
            except StopAsyncIteration:
                return
"""

EDITING = """
        return self._editing(self.waiting.editing({given}))

    @contextmanager
    def _editing(self, editing: AbstractAsyncContextManager[Any]) -> Iterator[Any]:
        draft = self._ask(lambda: editing.__aenter__())
        try:
            yield draft
        except BaseException as error:
            raised = (type(error), error, error.__traceback__)
            self._ask(lambda: editing.__aexit__(*raised))
            raise
        self._ask(lambda: editing.__aexit__(None, None, None))
"""


class Face(NamedTuple):
    """A class that blocks: the file and the class that it is made of, and what it leaves out."""

    module: str
    source: str
    doc: str
    without: Sequence[str] = ()


FACES = (
    Face(
        "reconcile/client/raw_client.py",
        "RawClient",
        "`RawClient` with methods that block; each does what its namesake there does.\n\n"
        "    `waiting` is the one that does the work.\n    ",
    ),
    Face(
        "reconcile/client/client.py",
        "Client",
        "`Client` with methods that block; each does what its namesake there does.\n\n"
        "    Functions that are passed (`change`, `decide`) run in the event loop: they must not block.\n"
        "    `waiting` is the client that does the work.\n    ",
        without=("watch",),  # its events would wait for code that blocks elsewhere
    ),
    Face(
        "reconcile/controller/context.py",
        "Context",
        "`Context` of one run, for a reconciler that is a plain function; its methods and `client` block.\n\n"
        "    `waiting` is the context that does the work.\n    ",
        without=("run_sync",),
    ),
)


def generated() -> str:
    """The module, before it is formatted."""
    return HEADER + "".join(map(_class, FACES))


def _class(face: Face) -> str:
    (source,) = (
        node
        for node in ast.parse((ROOT / face.module).read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == face.source
    )
    generic = "T" if source.bases else ""
    nodes = [
        node
        for node in source.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and node.name not in face.without
    ]
    times = Counter(node.name for node in nodes)
    methods = [_method(node, overloaded=times[node.name] > 1) for node in nodes]
    head = f"@frozen\nclass Sync{face.source}{f'(Generic[{generic}])' if generic else ''}:\n"
    fields = f"    waiting: {face.source}{f'[{generic}]' if generic else ''}\n    _ask: Ask\n"
    return f'\n{head}    """{face.doc}"""\n\n{fields}\n{"".join(methods)}'


def _method(node: Method, overloaded: bool) -> str:
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    returns = _blocking(ast.unparse(node.returns) if node.returns is not None else "None")
    signature = f"    def {node.name}({ast.unparse(node.args)}) -> {returns}:"
    if "overload" in decorators:
        return f"    @overload\n{signature} ...\n"
    is_property = bool(decorators & {"property", "cached_property", "functools.cached_property"})
    doc = (ast.get_docstring(node) or "").splitlines()[0]
    head = f"    @property\n{signature}" if is_property else signature
    return f'{head}\n        """{doc}"""\n{_body(node, returns, is_property, overloaded)}\n'


def _body(node: Method, returns: str, is_property: bool, overloaded: bool) -> str:
    given = _given(node.args)
    if node.name == "pages":
        return PAGES.format(given=given)
    if node.name == "editing":
        return EDITING.format(given=given)
    if overloaded:  # which of the overloads it is, the caller's type checker has seen
        waiting = f"        {node.name}: Callable[..., Awaitable[{returns}]] = self.waiting.{node.name}\n"
        return f"{waiting}        return self._ask(lambda: {node.name}({given}))\n"
    call = f"self.waiting.{node.name}" + ("" if is_property else f"({given})")
    if isinstance(node, ast.AsyncFunctionDef):
        return f"        {'' if returns == 'None' else 'return '}self._ask(lambda: {call})\n"
    if "Sync" in returns:
        return f"        return {returns.strip(QUOTE)}({call}, self._ask)\n"
    return f"        {'' if returns == 'None' else 'return '}{call}\n"


def _given(args: ast.arguments) -> str:
    """The arguments of a method, passed on as they came."""
    given = [arg.arg for arg in args.args if arg.arg != "self"]
    given += [f"*{args.vararg.arg}"] if args.vararg is not None else []
    given += [f"{arg.arg}={arg.arg}" for arg in args.kwonlyargs]
    given += [f"**{args.kwarg.arg}"] if args.kwarg is not None else []
    return ", ".join(given)


def _blocking(annotation: str) -> str:
    for waiting, blocking in BLOCKING.items():
        annotation = re.sub(rf"(?<!\w){re.escape(waiting)}(?!\w)", blocking, annotation)
    return annotation


def _formatted(text: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", f"--stdin-filename={TARGET}", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    # The two kinds of drafts overlap for mypy, as they do in Client.
    return done.stdout.replace("def editing(\n", "def editing(  # type: ignore[overload-overlap]\n", 1)


if __name__ == "__main__":
    TARGET.write_text(_formatted(generated()))
