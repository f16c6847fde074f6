"""Consent to a copy, by the owner of the source and the owner of the target namespace.

It is needed because the operator's rights are wider than those of the author of an object.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from attrs import field, frozen

from informers import Key
from reconcile.blocks.copier.copies import Unusable
from reconcile.kinds import Namespace, Secret

ALLOW_COPIES_FOR = "reconcile-runtime/allow-copies-for"
"""The label by which a Secret or a Namespace agrees: namespaces of objects, separated by dots."""


@frozen
class Grant:
    """Objects of the namespace `objects` may copy from or to names that match `pattern`; `*` is any text."""

    objects: str
    pattern: str

    @classmethod
    def parse(cls, text: str) -> "Grant":
        """From `shop:shop-*`; without `shop:` it means objects of every namespace. Raises ValueError."""
        objects, colon, pattern = text.strip().rpartition(":")
        if not pattern or (colon and not objects):
            raise ValueError(f"expected NAMESPACE:PATTERN or PATTERN, got {text!r}")
        return cls(objects or "*", pattern)

    def covers(self, objects: str, name: str) -> bool:
        """Whether it applies to objects of a namespace and that name."""
        return fnmatchcase(objects, self.objects) and fnmatchcase(name, self.pattern)


def _grants(given: Iterable["Grant | str"]) -> tuple[Grant, ...]:
    return tuple(one if isinstance(one, Grant) else Grant.parse(one) for one in given)


@frozen
class Consent:
    """Which Secrets may be copied for an object, and into which namespaces.

    A Secret or a Namespace agrees by the label `reconcile-runtime/allow-copies-for`, which names the
    namespace of the objects (several are separated by dots). `sources` and `namespaces` agree instead of the
    owners, as configuration of the operator: `shop:kubero/registry-login` and `shop:shop-*`, where `*` stands
    for any text; without `shop:` they mean objects of every namespace. Only `namespaces` allows the creation
    of a namespace. A pattern with `*` never means `default` or `kube-*`.

    `Consent.of_authors()` asks no owner: an object's author can then have every Secret copied that the
    operator may read, into every namespace.
    """

    sources: tuple[Grant, ...] = field(default=(), converter=_grants, kw_only=True)
    namespaces: tuple[Grant, ...] = field(default=(), converter=_grants, kw_only=True)
    _everything: bool = field(default=False, kw_only=True, alias="everything")

    @classmethod
    def of_authors(cls) -> "Consent":
        """The author of an object decides alone. See the class for the risk."""
        return cls(everything=True)

    def allows_source(self, objects: str, key: Key, secret: Secret | None) -> bool:
        """Whether objects of the namespace `objects` may have copies of a Secret."""
        if self._everything or (secret is not None and _agrees(secret.metadata.labels, objects)):
            return True
        return any(grant.covers(objects, f"{key.namespace}/{key.name}") for grant in self.sources)

    def allows_target(self, objects: str, name: str, namespace: Namespace | None) -> bool:
        """Whether objects of the namespace `objects` may have Secrets in a namespace, and have it created."""
        if self._everything or (namespace is not None and _agrees(namespace.metadata.labels, objects)):
            return True
        grants = [grant for grant in self.namespaces if not (_is_system(name) and "*" in grant.pattern)]
        return any(grant.covers(objects, name) for grant in grants)


def source_refused(objects: str, key: Key) -> Unusable:
    """The refusal of a source, the same for a missing one: authors must not learn which Secrets exist."""
    return Unusable(
        "NotAllowed",
        f"Secret {key} is missing, or may not be copied for namespace {objects}: its owner can label it "
        f"{ALLOW_COPIES_FOR}={objects}; existing copies are kept",
    )


def target_refused(objects: str, names: Iterable[str]) -> str:
    return (
        f"no Secrets may be written for namespace {objects} into {', '.join(names)}: a namespace's owner "
        f"can label it {ALLOW_COPIES_FOR}={objects}; only the operator's configuration lets a new one be made"
    )


def _agrees(labels: Mapping[str, str], objects: str) -> bool:
    # No namespace has a dot in its name, so a list of them fits into the value of a label.
    return bool(objects) and objects in labels.get(ALLOW_COPIES_FOR, "").split(".")


def _is_system(name: str) -> bool:
    return name == "default" or name.startswith("kube-")
