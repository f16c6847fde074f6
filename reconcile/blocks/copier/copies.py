"""What is copied where, and the labels that name a copy's owner. No message ever holds a Secret's value."""

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from attrs import field, frozen

from informers import Key
from reconcile.kinds import Secret
from reconcile.models import Object, kind_of

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "reconcile-runtime"
COPIER = "reconcile-runtime/copier"
OWNER_KIND = "reconcile-runtime/owner-kind"
OWNER_NAMESPACE = "reconcile-runtime/owner-namespace"
OWNER_NAME = "reconcile-runtime/owner-name"
OWNER_UID = "reconcile-runtime/owner-uid"
SOURCE_VERSION = "reconcile-runtime/source-version"
"""The annotation with the resourceVersion of the source that a copy was last written from."""

CopyRemoval: TypeAlias = Literal["copies", "keep", "namespaces"]
"""What is deleted when no longer asked for: the copies, nothing, or also the namespaces created for them."""

_LONGEST_LABEL = 63


class Unusable(Exception):
    """An object or a source lacks what a copy needs. `reason` is one CamelCase word, for a condition.

    `message` is shown to people, and must not contain a Secret's value.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@frozen
class Content:
    """What a copy contains: `data` is base64 text by key, as in the API, and never shown."""

    data: Mapping[str, str] = field(repr=False)
    type: str = "Opaque"

    @classmethod
    def of_text(cls, type: str = "Opaque", /, **text: str) -> "Content":  # noqa: A002
        """Content of plain text."""
        return cls({key: base64.b64encode(value.encode()).decode() for key, value in text.items()}, type)


def as_it_is(source: Secret) -> Content:
    """All of the source. Raises Unusable for an empty one, so that no copy is emptied."""
    if not source.data:
        raise Unusable("Empty", f"Secret {source.namespace}/{source.name} holds nothing")
    return Content(source.data, type_of(source))


def type_of(secret: Secret) -> str:
    return secret.type or "Opaque"


@frozen
class Copy:
    """A Secret that an object asks for, at `to`.

    Its content comes from the Secret `source`, by a pure function (default: all of it) that may raise
    `Unusable`. Without a source, `content` is the content itself, or an `Unusable` that explains its absence.
    Raises TypeError for other combinations.
    """

    to: Key
    source: Key | None = None
    content: Content | Unusable | Callable[[Secret], Content] = as_it_is

    def __attrs_post_init__(self) -> None:
        if callable(self.content) == (self.source is None):
            raise TypeError(
                f"copy to {self.to}: content= is a function where there is a source, else what it holds"
            )

    def made_of(self, source: Secret | None) -> Content:
        """Its content, given its source. Raises Unusable, also for a missing source."""
        if isinstance(self.content, Content):
            return self.content
        if isinstance(self.content, Unusable):
            raise self.content
        if source is None:
            raise Unusable("NotFound", f"there is no Secret {self.source}; existing copies are kept")
        return self.content(source)


@frozen
class CopyOwner:
    copier: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, copier: str, obj: Object) -> "CopyOwner":
        resource = kind_of(obj).resource
        kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
        return cls(copier, kind, obj.namespace, obj.name, obj.uid)

    def labels(self) -> dict[str, str]:
        """The labels that name the owner from any namespace: owner references cannot cross namespaces."""
        return {MANAGED_BY: MANAGER, **self.selector(), OWNER_UID: self.uid}

    def selector(self) -> dict[str, str]:
        """The labels to find its objects by, without the uid: a restored object takes its copies back."""
        return {
            COPIER: label_value(self.copier),
            OWNER_KIND: label_value(self.kind),
            OWNER_NAMESPACE: label_value(self.namespace),
            OWNER_NAME: label_value(self.name),
        }

    def index_value(self) -> tuple[str, ...]:
        return tuple(self.selector().values())

    def owns(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(name) == value for name, value in self.selector().items())


_SELECTING = (COPIER, OWNER_KIND, OWNER_NAMESPACE, OWNER_NAME)


def owners_in(obj: Object) -> tuple[tuple[str, ...], ...]:
    labels = obj.metadata.labels
    if not all(name in labels for name in _SELECTING):
        return ()
    return (tuple(labels[name] for name in _SELECTING),)


def label_value(name: str) -> str:
    """The name if it fits in a label, else its beginning and a hash: 63 characters at most."""
    if len(name) <= _LONGEST_LABEL:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{name[: _LONGEST_LABEL - 11]}-{digest}"
