"""What objects hold, as digests: without uids, versions, times and names that the server generated.

A uid only tells whether it is that of an object which exists now. Generated names are numbered in the order
of creation. So two worlds which differ only in them are the same.
"""

import hashlib
import re
from collections import Counter
from typing import Any, TypeAlias

import msgspec
from attrs import define, field

from informers.resource import Key
from reconcile.embedded.log import Log, StorageKey, Stored

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_LEFT_OUT = ("uid", "resourceVersion", "managedFields", "selfLink")


def digest_of(*parts: object) -> bytes:
    """A short digest of values whose representations are the same in every run."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).digest()


Content: TypeAlias = tuple[bytes, tuple[str, ...]]
"""A digest without uids, and the uids."""


@define(eq=False)
class ContentDigests:
    """The digests of the world of one `log`; `note` every creation before anything that mentions it."""

    log: Log
    _places: dict[str, tuple[StorageKey, Key]] = field(factory=dict, init=False)
    _names: dict[str, str] = field(factory=dict, init=False)
    _generated: Counter[str] = field(factory=Counter, init=False)
    _known: dict[tuple[str, int], Content] = field(factory=dict, init=False)

    def note(self, resource: StorageKey, stored: Stored) -> None:
        """Note an object that was created, with its name if the server has generated that."""
        self._places[stored.uid] = resource, stored.key
        if b'"generateName"' in stored.body:
            lead = stored.decode()["metadata"].get("generateName", "")
            if lead and stored.key.name.startswith(lead):
                self._generated[f"{resource[1]}/{lead}"] += 1
                self._names[stored.key.name] = f"{lead}~{self._generated[f'{resource[1]}/{lead}']}"

    def name(self, key: Key) -> str:
        """The name of an object, as it is the same in every run."""
        return self.text(str(key))

    def text(self, text: str) -> str:
        """A text without generated names."""
        for name, alias in self._names.items():
            if name in text:
                text = text.replace(name, alias)
        return text

    def of_memory(self, text: str) -> bytes:
        """The digest of what code remembers: with the objects that uids belong to in their place."""
        return digest_of(_UUID.sub(lambda uid: self._owner(uid[0]), self.text(text)))

    def _owner(self, uid: str) -> str:
        """Which object has or had a uid."""
        if uid not in self._places:
            return "<uid>"
        resource, key = self._places[uid]
        return f"<{resource[1]} {self.name(key)} {self.exists(uid)}>"

    def exists(self, uid: str) -> bool:
        """Whether there is an object of that uid now."""
        place = self._places.get(uid)
        stored = None if place is None else self.log.get(*place)
        return stored is not None and stored.uid == uid

    def of(self, uid: str, version: int, body: bytes) -> bytes:
        """The digest of one state of one object, with which of its uids exist now."""
        digest, uids = self.content(uid, version, body)
        return digest_of(digest, *map(self.exists, uids)) if uids else digest

    def of_stored(self, stored: Stored) -> bytes:
        return self.of(stored.uid, stored.version, stored.body)

    def content(self, uid: str, version: int, body: bytes) -> Content:
        """The content of one state of one object."""
        known = self._known.get((uid, version))
        if known is None:
            known = self._known[uid, version] = self.content_of(msgspec.json.decode(body))
        return known

    def content_of(self, body: Any) -> Content:
        """The content of any JSON that a server sends; of a list, that of its items."""
        if isinstance(body, dict) and isinstance(body.get("items"), list):
            items = [self.content_of(item) for item in body["items"]]
            return digest_of([digest for digest, _ in items]), tuple(uid for _, uids in items for uid in uids)
        if isinstance(body, dict) and isinstance(body.get("metadata"), dict):
            metadata = {name: value for name, value in body["metadata"].items() if name not in _LEFT_OUT}
            body = {**body, "metadata": metadata}
        text = self.text(msgspec.json.encode(body, order="deterministic").decode())
        uids = tuple(_UUID.findall(text))
        return digest_of(_TIME.sub("<time>", _UUID.sub("<uid>", text))), uids
