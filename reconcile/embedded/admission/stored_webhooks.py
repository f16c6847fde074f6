"""The webhooks of stored configurations: read once for each state of them, in the order in which they run."""

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define, field, frozen

from informers.apimachinery.label_selectors import requirements_of
from reconcile.embedded.admission.expressions import MatchConditions
from reconcile.embedded.admission.request_matching import MatchCriteria
from reconcile.embedded.admission.reviews import review_version
from reconcile.embedded.log import Log, StorageKey, Stored, StoredChange

GROUP = "admissionregistration.k8s.io"
MUTATING: StorageKey = (GROUP, "mutatingwebhookconfigurations")
VALIDATING: StorageKey = (GROUP, "validatingwebhookconfigurations")


@frozen
class Webhook:
    """One webhook of a configuration."""

    key: tuple[str, str, int]
    """The configuration, the name, and how many of that name come before it."""
    name: str
    client: Mapping[str, Any]
    """Its `clientConfig`."""
    match: MatchCriteria
    conditions: MatchConditions
    ignores_failures: bool
    has_no_side_effects: bool
    """Whether a dry run may call it."""
    seconds: int
    version: str
    """That of the reviews which it is sent."""
    if_needed: bool
    """Whether it is called again after later changes."""


@define(eq=False)
class StoredWebhooks:
    """The webhooks of all configurations of one sort."""

    _log: Log
    _sort: StorageKey
    _read: dict[str, tuple[Stored, tuple[Webhook, ...]]] = field(factory=dict, init=False)
    _ordered: tuple[Webhook, ...] | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._log.on_change(self._note)

    def _note(self, change: StoredChange) -> None:
        if change.resource == self._sort:
            self._ordered = None

    def any(self) -> bool:
        """Whether there is any configuration."""
        return self._log.count(self._sort) > 0

    def __iter__(self) -> Iterator[Webhook]:
        """All of them: configurations by name, and those of one as they are listed."""
        if self._ordered is None:
            self._ordered = self._in_order()
        return iter(self._ordered)

    def _in_order(self) -> tuple[Webhook, ...]:
        found: dict[str, tuple[Stored, tuple[Webhook, ...]]] = {}
        for stored in self._log.snapshot(self._sort):
            known = self._read.get(stored.key.name)
            webhooks = known[1] if known and known[0] is stored else tuple(_webhooks_of(stored))
            found[stored.key.name] = stored, webhooks
        self._read = found
        return tuple(webhook for _, webhooks in found.values() for webhook in webhooks)


def _webhooks_of(stored: Stored) -> Iterator[Webhook]:
    seen: dict[str, int] = {}
    for entry in stored.decode().get("webhooks") or ():
        name = entry["name"]
        place = seen[name] = seen.get(name, -1) + 1
        yield Webhook(
            (stored.key.name, name, place),
            name,
            entry.get("clientConfig") or {},
            _criteria(entry),
            MatchConditions.of(entry.get("matchConditions")),
            entry.get("failurePolicy") == "Ignore",
            entry.get("sideEffects") in ("None", "NoneOnDryRun"),
            entry.get("timeoutSeconds") or 10,
            review_version(entry.get("admissionReviewVersions") or ()),
            entry.get("reinvocationPolicy") == "IfNeeded",
        )


def _criteria(entry: Mapping[str, Any]) -> MatchCriteria:
    return MatchCriteria(
        tuple(entry.get("rules") or ()),
        (),
        entry.get("matchPolicy") != "Exact",
        requirements_of(entry.get("namespaceSelector") or {}),
        requirements_of(entry.get("objectSelector") or {}),
    )
