"""The options that name an operator on kopf: its code, its kinds, and the names under which it works."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import click
from attrs import field, frozen

from informers import APIResource
from reconcile.adoption.adopted_kinds import AdoptedKind, by_function, chosen, others, selectors_of
from reconcile.adoption.cluster_reading import ClusterReading
from reconcile.adoption.kopf_handlers import KopfOperator
from reconcile.adoption.kopf_modules import NotReadable, read_operator
from reconcile.commands.problems import Problem
from reconcile.commands.progress import progress
from reconcile.commands.served_kinds import resource_named
from reconcile.doctor.findings import Unread
from reconcile.predecessors import KopfTraces

F = TypeVar("F", bound=Callable[..., object])


def code_options(command: F) -> F:
    """The operator's code, as `kopf run` takes it: `files`, `modules` and `registry`."""
    files = click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path())
    modules = click.option(
        "-m", "--module", "modules", multiple=True, metavar="MODULE", help="Import a module too."
    )
    registry = click.option(
        "--registry",
        default="",
        metavar="MODULE:NAME",
        help="The registry to read. Default: the one that decorators of kopf use by themselves.",
    )
    return files(modules(registry(command)))


def read_or_refuse(files: Sequence[str], modules: Sequence[str], registry: str) -> KopfOperator:
    """The operator of files and modules. Raises Problem."""
    if not files and not modules:
        raise Problem(
            "no file and no module was named", "name them as for kopf run: operator.py, or -m MODULE"
        )
    try:
        with progress(f"importing {', '.join((*files, *modules))}"):
            operator = read_operator(files, modules, registry)
    except NotReadable as error:
        raise Problem(error.message, error.hint) from error
    if not operator.handlers:
        raise Problem(
            f"{', '.join((*files, *modules))} registers no handlers",
            "name the modules with its decorators, or its registry with --registry MODULE:NAME",
        )
    return operator


@frozen
class FormerOperator:
    """An operator on kopf, as the options of a command name it; `code` is None where none was given.

    `names` are those of KopfTraces that are known.
    """

    code: KopfOperator | None = None
    kinds: Sequence[str] = ()
    namespaces: tuple[str, ...] = ()
    deployments: Sequence[str] = ()
    names: dict[str, str] = field(factory=dict)

    @property
    def is_anyone(self) -> bool:
        """Whether neither code nor kinds say which objects it keeps."""
        return self.code is None and not self.kinds

    @property
    def traces(self) -> KopfTraces:
        names, kopf = self.names, KopfTraces()
        return KopfTraces(
            names.get("prefix", kopf.prefix),
            names.get("finalizer", kopf.finalizer),
            names.get("peering", kopf.peering),
        )


def former_operator_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command on the objects that an operator on kopf keeps; it gets `former`."""

    @code_options
    @click.option(
        "--kind",
        "kinds",
        multiple=True,
        metavar="KIND",
        help="A kind to read, like `sites.example.com` or `secrets`.",
    )
    @click.option("--namespace", "-n", "namespaces", multiple=True, metavar="NS", help="Read only this one.")
    @click.option(
        "--deployment",
        "deployments",
        multiple=True,
        metavar="NAME",
        help="Deployment of the operator, `NAME` or `NAMESPACE/NAME`.",
    )
    @click.option("--prefix", metavar="PREFIX", help="Prefix of its annotations. Default: kopf.zalando.org.")
    @click.option("--finalizer", metavar="NAME", help="Its finalizer. Default: kopf's.")
    @click.option("--peering", metavar="NAME", help="Name of its peering objects.")
    @wraps(command)
    def with_former(
        *,
        files: tuple[str, ...],
        modules: tuple[str, ...],
        registry: str,
        kinds: tuple[str, ...],
        namespaces: tuple[str, ...],
        deployments: tuple[str, ...],
        prefix: str | None,
        finalizer: str | None,
        peering: str | None,
        **rest: Any,
    ) -> Any:
        code = read_or_refuse(files, modules, registry) if files or modules else None
        names = dict(code.trace_names) if code is not None else {}
        given = {"prefix": prefix, "finalizer": finalizer, "peering": peering}
        names |= {name: value for name, value in given.items() if value}
        return command(former=FormerOperator(code, kinds, namespaces, deployments, names), **rest)

    return with_former


async def kinds_of(
    former: FormerOperator, reading: ClusterReading
) -> tuple[Sequence[AdoptedKind], Sequence[Unread]]:
    """The kinds to read, and what is not known of them. Raises Problem, ApiError."""
    resources: list[APIResource] = []
    unread: list[Unread] = []
    words = list(former.kinds)
    if former.is_anyone:
        resources = [kind.resource for kind in await reading.custom_kinds()]
    if former.code is not None:
        known, selectors = await reading.custom_kinds(), selectors_of(former.code)
        resources, words = list(chosen(known, selectors)), [*words, *others(known, selectors)]
        unread = [
            Unread(one, "only the running operator knows which these are", "name them with --kind")
            for one in (() if former.kinds else by_function(selectors))
        ]
    for word in words:
        resource = await resource_named(reading.sender.transport, word)
        if resource is None:
            raise Problem(f"the server has no kind {word}", "name a kind as `kubectl api-resources` does")
        resources.append(resource)
    sure = "prefix" in former.names
    found = [
        AdoptedKind(resource, former.traces, former.namespaces, any_prefix=not sure)
        for resource in dict.fromkeys(resources)
    ]
    return found, unread
