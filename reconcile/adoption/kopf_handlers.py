"""The handlers of an operator on kopf, as values."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

EVERYTHING = "EVERYTHING"
"""The name that stands for all resources, as `kopf.EVERYTHING` does."""


@frozen
class Code:
    """A value that only the author's code has: a function, a token of kopf, an object. `text` names it."""

    text: str

    def __str__(self) -> str:
        return self.text


def shown(value: Any) -> str:
    """A value as source text, of at most 80 characters."""
    if isinstance(value, Mapping):
        text = "{" + ", ".join(f"{name!r}: {shown(inner)}" for name, inner in value.items()) + "}"
    elif isinstance(value, list | tuple | set | frozenset):
        text = "[" + ", ".join(map(shown, value)) + "]"
    else:
        text = str(value) if isinstance(value, Code) else repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


@frozen
class ResourceNames:
    """The names of one resource, by which selectors of handlers find it."""

    group: str
    versions: Sequence[str]
    kind: str
    plural: str
    singular: str = ""
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()

    @classmethod
    def of_definition(cls, definition: Mapping[str, Any]) -> "ResourceNames":
        """Those of a CustomResourceDefinition. Raises KeyError for an incomplete one."""
        spec = definition["spec"]
        names = spec["names"]
        return cls(
            group=spec["group"],
            versions=[version["name"] for version in spec["versions"]],
            kind=names["kind"],
            plural=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            short_names=names.get("shortNames") or (),
            categories=names.get("categories") or (),
        )


@frozen
class ResourceSelector:
    """Which resources a handler is for; None: any. `function`: the author's own, which nothing here calls."""

    group: str | None = None
    version: str | None = None
    kind: str | None = None
    plural: str | None = None
    singular: str | None = None
    shortcut: str | None = None
    category: str | None = None
    any_name: str | None = None
    function: str = ""

    @property
    def name(self) -> str:
        """The name that was given, whatever it is a name of; empty for a category and a function."""
        return self.any_name or self.kind or self.plural or self.singular or self.shortcut or ""

    @property
    def is_everything(self) -> bool:
        """Whether it chooses more than one kind, or says nothing about which."""
        return self.any_name == EVERYTHING or bool(self.category or self.function)

    def __str__(self) -> str:
        if self.function:
            return f"resources chosen by {self.function}"
        name = f"category {self.category}" if self.category else self.name
        where = "/".join(part for part in (self.group, self.version) if part)
        return f"{name}.{where}" if where else name

    def matches(self, names: ResourceNames) -> bool:
        """Whether it chooses a resource, as kopf decides; never for a selector by function."""
        given = (
            (self.kind, (names.kind,)),
            (self.plural, (names.plural,)),
            (self.singular, (names.singular,)),
            (self.shortcut, names.short_names),
            (self.category, names.categories),
            (self.any_name, (EVERYTHING, names.kind, names.plural, names.singular, *names.short_names)),
            (self.group, (names.group,)),
            (self.version, names.versions),
        )
        return not self.function and all(value is None or value in allowed for value, allowed in given)


@frozen
class BodyFacts:
    """What the source of a function says, its own lines alone: functions that it calls are not followed."""

    returns_value: bool = False
    keywords: Sequence[str] = ()
    """Names of arguments that it takes, without `**kwargs`."""
    names: Sequence[str] = ()
    """Names of kopf that it uses, like `kopf.adopt`, in alphabetical order."""
    status_fields: Sequence[str] = ()
    """Fields that it writes by `patch.status`."""
    patches: Sequence[str] = ()
    """Other parts of its object that it writes by `patch`: `spec`, `metadata.labels`."""
    creates: Sequence[str] = ()
    """Kinds that it writes by a client's methods, like `config_map` of `create_namespaced_config_map`."""
    remembers: Sequence[str] = ()
    """Names of its module that it changes: the memory of one process."""
    sleeps: bool = False
    subhandlers: Mapping[str, str] = field(factory=dict)
    """kopf's ids of its sub-handlers below its own, by what the source calls them, as far as that says; in
    the order in which they are registered."""
    makes_subhandlers: bool = False
    """Whether it registers others too, under ids that only a call of it knows."""


@frozen
class Place:
    """A function of the author's."""

    name: str
    file: str = ""
    line: int = 0
    doc: str = ""
    is_async: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@frozen
class KopfHandler:
    """One registration of a function: `decorator` is `kopf.on.create`, `arguments` those that were given."""

    decorator: str
    id: str
    place: Place
    selector: ResourceSelector | None = None
    arguments: Mapping[str, Any] = field(factory=dict, hash=False)
    facts: BodyFacts | None = field(default=None, hash=False)
    """None where the source is not available."""

    def __str__(self) -> str:
        given = ", ".join(f"{name}={shown(value)}" for name, value in self.arguments.items())
        return f"@{self.decorator}({given})" if given else f"@{self.decorator}"


@frozen
class Setting:
    """An assignment to kopf's settings in the source; `value` is Code where it is not a literal."""

    name: str
    value: Any
    place: str


@frozen
class KopfOperator:
    """All that was read of an operator.

    `prefixes` are those of annotations that its source gives to storages; `unread` names files whose source
    could not be read.
    """

    version: str
    modules: Sequence[str]
    handlers: Sequence[KopfHandler]
    settings: Sequence[Setting] = ()
    prefixes: Sequence[str] = ()
    unread: Sequence[str] = ()

    def setting(self, name: str) -> Any:
        """The last value that was assigned to a setting; None if there is none."""
        return next((one.value for one in reversed(self.settings) if one.name == name), None)

    @property
    def trace_names(self) -> Mapping[str, str]:
        """The names of KopfTraces that its source sets: what it writes on objects and in peering objects."""
        found = {
            "finalizer": self.setting("persistence.finalizer"),
            "peering": self.setting("peering.name"),
            "prefix": next(iter(self.prefixes), None),
        }
        return {name: value for name, value in found.items() if isinstance(value, str) and value}
