"""The one Secret in which the replicas of an operator keep their CA, leaf, and what they say of themselves.

Its type marks it, which cannot be changed later: a Secret of another type is never written.
"""

import base64
import binascii
import datetime
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
from attrs import evolve, frozen

from reconcile.kinds import Secret
from reconcile.models import ObjectMeta
from reconcile.webhooks.certificate_authority import (
    BadCertificate,
    Pair,
    authority_of,
    fingerprint,
    leaf_of,
    new_authority,
    new_leaf,
)
from reconcile.webhooks.rotation import Member, Move, Rotation, Step, names_of_next_leaf

SECRET_TYPE = "reconcile-runtime/webhook-certificates"
LABELS = {"app.kubernetes.io/managed-by": "reconcile-runtime"}
CURRENT, UPCOMING, LEAF, MEMBERS = "ca", "next", "tls", "members.json"

_MOST_BYTES = 1_048_576  # as API servers limit the data of a Secret


class UnusableSecret(Exception):
    """The Secret of the certificates belongs to something else, or is damaged; it is left as it is."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(
            f"Secret {place} cannot hold the certificates of the webhooks: {problem}. It is left as it is: "
            "delete it if nothing else uses it, or give the Service another name (webhook_service)"
        )
        self.place = place


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    serves: str
    settled: tuple[str, ...] = ()
    beat: int = 0


_entries = msgspec.json.Decoder(dict[str, _Entry])


@frozen
class StoredCertificates:
    """What the Secret holds. The CAs' keys sign the next leaf certificates."""

    current: Pair
    leaf: Pair
    upcoming: Pair | None = None
    members: Mapping[str, Member] = {}

    @property
    def authorities(self) -> tuple[Pair, ...]:
        return (self.current,) if self.upcoming is None else (self.current, self.upcoming)

    @property
    def bundle(self) -> str:
        """The certificates that belong into every bundle, in PEM."""
        return "".join(authority.certificate for authority in self.authorities)

    @property
    def rotation(self) -> Rotation:
        """What is decided on. Raises BadCertificate."""
        upcoming = None if self.upcoming is None else authority_of(self.upcoming)
        leaf = leaf_of(self.leaf, self.authorities)
        return Rotation(authority_of(self.current), leaf, upcoming, self.members)

    @property
    def signer(self) -> Pair:
        """The CA that signed the leaf. Raises BadCertificate."""
        issuer = leaf_of(self.leaf, self.authorities).issuer
        return next(one for one in self.authorities if fingerprint(one.certificate) == issuer)


def first_certificates(identity: str, names: Sequence[str], now: datetime.datetime) -> StoredCertificates:
    """New ones, served by one replica so far."""
    authority = new_authority(now)
    serves = Member(fingerprint(authority.certificate))
    return StoredCertificates(authority, new_leaf(authority, names, now), members={identity: serves})


def restored_certificates(
    known: StoredCertificates, identity: str, now: datetime.datetime
) -> StoredCertificates:
    """Those of a Secret that was deleted in use: what is served stays valid while a new CA takes over."""
    signer = known.signer
    serves = Member(fingerprint(signer.certificate))
    return StoredCertificates(signer, known.leaf, new_authority(now), {identity: serves})


def stepped(
    stored: StoredCertificates, step: Step, names: tuple[str, ...], now: datetime.datetime
) -> StoredCertificates:
    """The certificates after a step. Raises BadCertificate."""
    after = evolve(stored, members=step.members)
    if step.move is Move.ANNOUNCE:
        return evolve(after, upcoming=new_authority(now))
    if step.move is Move.DROP and stored.upcoming is not None:
        return evolve(after, current=stored.upcoming, upcoming=None)
    if step.move is Move.RENEW or step.move is Move.SWITCH:
        signer = stored.upcoming if step.move is Move.SWITCH and stored.upcoming else stored.signer
        return evolve(after, leaf=new_leaf(signer, names_of_next_leaf(stored.rotation, names, now), now))
    return after


def new_secret(name: str, namespace: str, stored: StoredCertificates) -> Secret:
    metadata = ObjectMeta(name, namespace, labels=LABELS)
    return Secret(metadata=metadata, type=SECRET_TYPE, data=secret_data(stored))


def secret_data(stored: StoredCertificates) -> Mapping[str, str]:
    """The data of the Secret, in base64."""
    pairs = {CURRENT: stored.current, LEAF: stored.leaf}
    if stored.upcoming is not None:
        pairs[UPCOMING] = stored.upcoming
    texts = {MEMBERS: msgspec.json.encode(_as_entries(stored.members), order="sorted")}
    for name, pair in pairs.items():
        texts |= {f"{name}.crt": pair.certificate.encode(), f"{name}.key": pair.key.encode()}
    return {name: base64.b64encode(text).decode() for name, text in sorted(texts.items())}


def read_secret(secret: Secret) -> StoredCertificates:
    """What a Secret holds, checked: its pairs belong together and the leaf is of one of its CAs.

    Raises UnusableSecret; nothing of the data is in its text.
    """
    place = f"{secret.metadata.namespace}/{secret.metadata.name}"
    if secret.type != SECRET_TYPE:
        raise UnusableSecret(place, f"its type is {secret.type!r}, not {SECRET_TYPE!r}")
    if secret.immutable:
        raise UnusableSecret(place, "it is immutable")
    if sum(map(len, secret.data.values())) > 2 * _MOST_BYTES:
        raise UnusableSecret(place, "it is too large")
    try:
        return _stored(secret.data)
    except BadCertificate as error:
        raise UnusableSecret(place, str(error)) from None


def _stored(data: Mapping[str, str]) -> StoredCertificates:
    current, leaf = _pair(data, CURRENT), _pair(data, LEAF)
    upcoming = _pair(data, UPCOMING) if f"{UPCOMING}.crt" in data else None
    stored = StoredCertificates(current, leaf, upcoming, _members(data))
    for name, authority in zip((CURRENT, UPCOMING), stored.authorities, strict=False):
        with _entry(f"{name}.crt"):
            authority_of(authority)
    with _entry(f"{LEAF}.crt"):
        leaf_of(leaf, stored.authorities)
    return stored


@contextmanager
def _entry(name: str) -> Iterator[None]:
    """Names the entry in the errors within."""
    try:
        yield
    except BadCertificate as error:
        raise BadCertificate(f"{name}: {error}") from None


def _pair(data: Mapping[str, str], name: str) -> Pair:
    return Pair(_text(data, f"{name}.crt"), _text(data, f"{name}.key"))


def _text(data: Mapping[str, str], name: str) -> str:
    if name not in data:
        raise BadCertificate(f"it has no {name}")
    try:
        return base64.b64decode(data[name], validate=True).decode()
    except (binascii.Error, ValueError):
        raise BadCertificate(f"{name} is not text") from None


def _members(data: Mapping[str, str]) -> Mapping[str, Member]:
    try:
        entries = _entries.decode(_text(data, MEMBERS))
    except msgspec.DecodeError:
        raise BadCertificate(f"{MEMBERS} is not a list of replicas") from None
    return {name: Member(entry.serves, entry.settled, entry.beat) for name, entry in entries.items()}


def _as_entries(members: Mapping[str, Member]) -> Mapping[str, _Entry]:
    return {name: _Entry(member.serves, member.settled, member.beat) for name, member in members.items()}
