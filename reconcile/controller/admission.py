"""The declaration of admission: functions that complete or refuse a write before it is stored.

An API server calls them through webhooks, which a manager serves; an embedded server calls them in process.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Generic, Literal, TypeAlias, TypeVar

from attrs import field, frozen

from informers.functions import check_function
from reconcile.controller.admission_rules import check_rule, fits_definition, read_rules
from reconcile.controller.identity import check_operator, domain_of
from reconcile.models import LabelSelector, Object, Rule, Unstructured, kind_of
from reconcile.models.versions import is_custom

T = TypeVar("T", bound=Object)

Operation = Literal["CREATE", "UPDATE", "DELETE"]

OPERATIONS: Sequence[Operation] = ("CREATE", "UPDATE", "DELETE")
MAX_TIMEOUT = 30
"""Seconds; an API server accepts no more."""


@frozen
class UserInfo:
    """The author of a write, as the API server authenticated it."""

    username: str = ""
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = field(factory=dict, hash=False)


@frozen
class AdmissionRequest:
    """What the API server says of a write that is to be admitted."""

    operation: Operation
    user: UserInfo = UserInfo()
    namespace: str = ""
    """Empty for objects without a namespace; that of a Namespace is its own name."""
    name: str = ""
    """Empty for `defaults` while a name is still to be generated, and in a deletion of a collection."""
    subresource: str = ""
    dry_run: bool = False
    """Nothing will be stored; the same answer is expected."""


@frozen
class Refusal:
    """Why a write is refused, and the field at fault; clients get it as a cause of a 422 Invalid.

    `field` is a path from the root of the object, as schemas report it: `spec.ports[1].number`; empty for
    the whole object. The message must not contain secrets: clients log it.
    """

    message: str
    field: str = ""


@frozen
class Warn:
    """A text that clients show with an accepted or refused write; at most about 120 characters."""

    text: str


Defaults: TypeAlias = Callable[[T, AdmissionRequest], T]
"""A pure function that returns the object as it should be stored, or the same object."""
Refuses: TypeAlias = Callable[[T, T | None, AdmissionRequest], Iterable[Refusal | Warn]]
"""A pure function of the object, the stored one and the request; empty if the write is acceptable."""


def _operations(names: "str | Iterable[str]") -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


@frozen(slots=False)
class Admission(Generic[T]):
    """Completes the objects of one kind, and refuses writes of them, before they are stored.

    `defaults` gets an object and the request, and returns the object as it should be; what it leaves alone
    stays as it was sent, fields that the class does not know included. It cannot change the name, the
    namespace, the uid or the status. `refuses` gets the object, the stored one (None on CREATE; on DELETE it
    is the object itself) and the request, and yields a `Refusal` for each problem and a `Warn` for each
    warning. It is not called for an update that changes neither spec nor labels nor annotations, so that
    finalizers can be removed from objects that older rules accepted. Both must be pure and quick: the API
    server waits for them, calls them again for a dry run, and may call `defaults` twice.

    `rules` are for what needs no code and cannot stand in a definition: kinds of Kubernetes, DELETE, and who
    asks. Each is a text in CEL or a `Rule` that must be true, over `object` (null on DELETE), `oldObject`
    (null on CREATE), `request` and `namespaceObject`. The API server evaluates them itself, as a
    ValidatingAdmissionPolicy, and not for such an update either. A rule that reads a missing field fails,
    and then `required` decides: ask with `has()` first.

    `operations` are those of `refuses` and `rules` (default: CREATE and UPDATE); `defaults` is called for the
    CREATE and UPDATE among them.

    Only objects that all filters choose are judged: `labels` of the object, `namespaces` by the labels of its
    namespace, and `conditions`, CEL expressions over `object`, `oldObject` and `request` by their names.

    `required` decides what happens to a write if the functions cannot be called within `timeout` seconds (1
    to 30), or a rule cannot be evaluated: with True it fails, with False it passes. By default it fails for
    a kind of your own, and passes for a built-in kind, since nothing would start in the cluster until the
    webhook is back.

    `operator` is a domain that belongs to the operator alone, as for `Controller`; its webhooks' names end
    in it. It must be given for a kind of Kubernetes, and for rules of a kind that another project defines.

    Raises TypeError for a function that does not fit, and ValueError for any other option and for a rule
    that the class of the kind can hold.
    """

    kind: type[T]
    defaults: Defaults[T] | None = field(default=None, kw_only=True)
    refuses: Refuses[T] | None = field(default=None, kw_only=True)
    rules: Sequence[Rule] = field(default=(), converter=read_rules, kw_only=True)
    operations: Sequence[str] = field(default=("CREATE", "UPDATE"), converter=_operations, kw_only=True)
    labels: LabelSelector | None = field(default=None, kw_only=True)
    namespaces: LabelSelector | None = field(default=None, kw_only=True)
    conditions: Mapping[str, str] = field(factory=dict, hash=False, kw_only=True)
    required: bool | None = field(default=None, kw_only=True)
    timeout: int = field(default=5, kw_only=True)
    _operator: str = field(default="", alias="operator", converter=check_operator, kw_only=True)

    def __attrs_post_init__(self) -> None:
        kind_of(self.kind)
        if self.defaults is None and self.refuses is None and not self.rules:
            raise TypeError(f"{self}: give defaults=, refuses= or rules=")
        if self.defaults is not None:
            check_function(self.defaults, f"{self}: defaults=", "object, request", "plain")
        if self.refuses is not None:
            check_function(self.refuses, f"{self}: refuses=", "object, old, request", "many")
        if unknown := [name for name in self.operations if name not in OPERATIONS]:
            raise ValueError(f"{self}: operations= {unknown[0]!r} is not one of {', '.join(OPERATIONS)}")
        if not self.operations:
            raise ValueError(f"{self}: operations= is empty: give at least one of {', '.join(OPERATIONS)}")
        if self.refuses is None and not self.rules and "DELETE" in self.operations:
            raise ValueError(f"{self}: defaults= is not called for DELETE, which cannot change an object")
        if not 1 <= self.timeout <= MAX_TIMEOUT:
            raise ValueError(f"{self}: timeout= expected 1 to {MAX_TIMEOUT} seconds, got {self.timeout!r}")
        if not self.operator:
            raise ValueError(
                f"{self}: {kind_of(self.kind).resource.kind} is a kind of Kubernetes, so a webhook of "
                "another operator may have the same name: give operator=, a domain of yours such as "
                "'shop.example.com'"
            )
        self._check_rules()

    def _check_rules(self) -> None:
        for rule in self.rules:
            try:
                check_rule(rule)
            except ValueError as error:
                raise ValueError(f"{self}: {error}") from None
        if not self._has_own_definition or self.labels is not None or self.namespaces is not None:
            return
        for rule in self.rules:
            texts = (rule.rule, rule.message_expression, *self.conditions.values())
            if "DELETE" not in self.operations and fits_definition(texts):
                raise ValueError(
                    f"{self}: rules= {rule.rule!r} reads the object alone, so its definition can hold it: "
                    "write it as a rule of the class, @resource(..., rules=[Rule(...)]), with self for "
                    "object and oldSelf for oldObject, or give operator= for a kind that another project "
                    "defines"
                )

    @property
    def _has_own_definition(self) -> bool:
        """Whether the operator defines the kind, with a schema that can hold rules."""
        kind = kind_of(self.kind)
        if not is_custom(self.kind) or kind.as_installed or issubclass(self.kind, Unstructured):
            return False
        return self.operator == domain_of(kind.resource)

    def __str__(self) -> str:
        return f"Admission({self.kind.__name__})"

    @cached_property
    def operator(self) -> str:
        """The domain of the operator."""
        return self._operator or domain_of(kind_of(self.kind).resource)

    @property
    def is_required(self) -> bool:
        """Whether a write fails if the functions cannot be called."""
        return is_custom(self.kind) if self.required is None else self.required
