"""Replaces secrets by placeholders before they are written, so that equal values stay equal.

Masked are the values of Secrets, fields that a model declares secret, and tokens that the API issues or
checks, in objects, requests and answers; and, in whatever a run that has seen Secrets sent or got, their
values in every form of `reconcile.client.redaction`. Where such a value was found in another object, it is
looked for in all that follows.
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from attrs import define, field

from reconcile.client.redaction import SHORTEST, copies_object, declared_values, forms_of
from reconcile.models.secret_fields import fields_at

MOST_EXPOSED = 1_000
"""Forms of values that are looked for in all objects, as a run has written them into one. With more, the
recording ends: each takes time for each object, and one that is not looked for would be written."""
_FORMS_KEPT = 256
_PREFIX = "masked-"

_mask = re.compile(_PREFIX.encode() + rb"[0-9a-f]{20}").search

Place = tuple[str, str]
"""The group and plural of a resource."""
SecretPaths = Mapping[Place, Iterable[tuple[str, ...]]]

_SECRETS: Place = ("", "secrets")


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata


_metadata = msgspec.json.Decoder(_Named)


class TooManyExposed(Exception):
    """Runs have put more values of Secrets into other objects than can be looked for."""


def has_masks(body: bytes | None) -> bool:
    """Whether there is a mask in a recorded body; that of base64 is not recognized."""
    return body is not None and _mask(body) is not None


@define(eq=False)
class SecretMasks:
    """The masks of one recording; `key` makes them, and `paths` are the secret fields of models."""

    key: bytes = field(repr=False)
    paths: SecretPaths
    _forms: OrderedDict[bytes, list[tuple[str, str]]] = field(factory=OrderedDict, init=False, repr=False)
    _exposed: dict[str, str] = field(factory=dict, init=False, repr=False)
    _kept: dict[tuple[str, Place, str, str], tuple[str, bytes]] = field(factory=dict, init=False, repr=False)

    # --- single values ----------------------------------------------------------------------------

    def text(self, value: str) -> str:
        """The mask of a text; of JSON, each value in it is masked, so that it stays JSON."""
        if value[:1] in ("{", "["):
            try:
                return json.dumps(self._leaves(msgspec.json.decode(value)), separators=(",", ":"))
            except (msgspec.DecodeError, RecursionError):
                pass
        return self._token(value.encode(errors="surrogatepass")) if value else ""

    def data(self, value: str) -> str:
        """The mask of base64, as Secrets have their values; it is base64 too."""
        try:
            plain = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            return self.text(value)
        try:
            masked = self.text(plain.decode())
        except UnicodeDecodeError:
            masked = self._token(plain)
        return base64.b64encode(masked.encode()).decode()

    def _token(self, value: bytes) -> str:
        return _PREFIX + hmac.new(self.key, value, hashlib.sha256).hexdigest()[:20]

    def _leaves(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._leaves(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._leaves(one) for one in value]
        if isinstance(value, str):
            return self._token(value.encode(errors="surrogatepass")) if value else value
        if isinstance(value, bool) or value is None:
            return value
        return int(hmac.new(self.key, repr(value).encode(), hashlib.sha256).hexdigest()[:8], 16)

    # --- objects ------------------------------------------------------------------------------------

    def is_sensitive(self, place: Place) -> bool:
        """Whether objects of a resource are masked."""
        return place == _SECRETS or place in self.paths

    def body(self, place: Place, subresource: str, body: bytes) -> bytes:
        """A request, an answer, or an object, with its secrets masked."""
        if place == _SECRETS:
            return self._rewritten(body, self._mask_secret)
        if subresource == "token" or place[1] in ("tokenreviews", "tokenrequests"):
            return self._rewritten(body, self._mask_token)
        if paths := self.paths.get(place):
            return self._rewritten(body, lambda obj: self._mask_paths(obj, paths))
        return body

    def _rewritten(self, body: bytes, mask: Callable[[dict[str, Any]], None]) -> bytes:
        try:
            decoded = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return msgspec.json.encode({"masked": self._token(body)}) if body else body
        objects = [decoded]
        if isinstance(decoded, dict) and isinstance(decoded.get("items"), list):
            objects = decoded["items"]
        for obj in objects:
            if isinstance(obj, dict):
                mask(obj)
        if isinstance(decoded, list):
            # A JSON patch: what it sets may be a secret wherever it is.
            for step in decoded:
                if isinstance(step, dict) and "value" in step and not _keeps_value(step):
                    step["value"] = self._leaves(step["value"])
        return msgspec.json.encode(decoded)

    def _mask_secret(self, obj: dict[str, Any]) -> None:
        for part, mask in (("data", self.data), ("stringData", self.text)):
            values = obj.get(part)
            if isinstance(values, dict):
                obj[part] = {
                    name: mask(value) if isinstance(value, str) else value for name, value in values.items()
                }
            elif values is not None:
                obj[part] = None
        for annotations, name, text in _copies(obj):
            annotations[name] = self._mask_copy(text)

    def _mask_copy(self, text: str) -> str:
        try:
            copy = msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError):
            return self._token(text.encode())
        self._mask_secret(copy)
        return json.dumps(copy, separators=(",", ":"))

    def _mask_token(self, obj: dict[str, Any]) -> None:
        for part in ("spec", "status"):
            values = obj.get(part)
            if isinstance(values, dict) and isinstance(values.get("token"), str):
                values["token"] = self.text(values["token"])

    def _mask_paths(self, obj: dict[str, Any], paths: Iterable[tuple[str, ...]]) -> None:
        for path in paths:
            for fields, name in [*fields_at(obj, path)]:
                value = fields[name]
                fields[name] = self.text(value) if isinstance(value, str) else self._leaves(value)
        for annotations, name, text in _copies(obj):
            annotations[name] = self._token(text.encode())

    def fields_of(self, place: Place, body: bytes | None) -> Sequence[bytes]:
        """The values of secret fields in a request, as the JSON of a Secret that has them."""
        paths = self.paths.get(place, ())
        found = declared_values(body, paths) if body and paths else b""
        return [found] if found else ()

    # --- masked objects of caches -----------------------------------------------------------------

    def keep(self, cluster: str, place: Place, body: bytes) -> None:
        """Keep a masked object for the beginning of the next file, with what the cache drops of it."""
        metadata = _metadata.decode(body).metadata
        name = cluster, place, metadata.namespace, metadata.name
        self._kept[name] = metadata.resource_version, body

    def drop(self, cluster: str, place: Place, body: bytes) -> None:
        """Keep an object no more."""
        metadata = _metadata.decode(body).metadata
        self.forget(cluster, place, metadata.namespace, metadata.name)

    def forget(self, cluster: str, place: Place, namespace: str, name: str) -> None:
        """The same, by its name."""
        self._kept.pop((cluster, place, namespace, name), None)

    def kept(self, cluster: str, place: Place, namespace: str, name: str, version: int) -> bytes | None:
        """The masked object that was kept, if that is the state of it."""
        kept = self._kept.get((cluster, place, namespace, name))
        return kept[1] if kept is not None and kept[0] == str(version) else None

    # --- what runs put elsewhere --------------------------------------------------------------------

    def elsewhere(self, body: bytes, secrets: Sequence[bytes]) -> bytes:
        """What a run that has seen these Secrets sent or got, without their values. Raises TooManyExposed."""
        found = body.decode(errors="surrogateescape")
        for form, mask in self._forms_of(secrets):
            if form in found:
                found = found.replace(form, mask)
                self._expose(form, mask)
        return self.exposed(found.encode(errors="surrogateescape"))

    def exposed(self, body: bytes) -> bytes:
        """Anything without the values that a run has put where they do not belong."""
        if not self._exposed:
            return body
        text = body.decode(errors="surrogateescape")
        for form, mask in self._exposed.items():
            if form in text:
                text = text.replace(form, mask)
        return text.encode(errors="surrogateescape")

    def _expose(self, form: str, mask: str) -> None:
        if form in self._exposed:
            return
        if len(self._exposed) == MOST_EXPOSED:
            raise TooManyExposed(
                f"runs have put more than {MOST_EXPOSED} values of Secrets into other objects"
            )
        # The longest first: one that is a part of another would leave the rest of it readable.
        forms = {**self._exposed, form: mask}
        self._exposed = dict(sorted(forms.items(), key=lambda one: len(one[0]), reverse=True))

    def _forms_of(self, secrets: Sequence[bytes]) -> Sequence[tuple[str, str]]:
        forms: dict[str, str] = {}
        for body in secrets:
            digest = hashlib.blake2b(body, digest_size=16).digest()
            known = self._forms.get(digest)
            if known is None:
                known = self._forms[digest] = [(form, self._mask_of(form, body)) for form in forms_of(body)]
                if len(self._forms) > _FORMS_KEPT:
                    self._forms.popitem(last=False)
            forms.update(known)
        return sorted(forms.items(), key=lambda one: len(one[0]), reverse=True)

    def _mask_of(self, form: str, body: bytes) -> str:
        """The mask of a form: that of the value where it is one, so that what copies it stays equal."""
        if len(form) < SHORTEST:
            return form
        if f'"{form}"'.encode() in body:
            return self.data(form)
        try:
            plain = base64.b64decode(form, validate=True).decode()
        except ValueError:
            return self.text(form)
        # The base64 of a value that is itself a part of another one, or a word that happens to be base64.
        return self.data(form) if plain.isprintable() and len(plain) >= SHORTEST else self.text(form)


def _keeps_value(step: dict[str, Any]) -> bool:
    """Whether a step of a JSON patch sets metadata that cannot be a copy of the object."""
    path = str(step.get("path", ""))
    if not path.startswith("/metadata/"):
        return False
    part, _, name = path.removeprefix("/metadata/").partition("/")
    return part != "annotations" or (name != "" and not copies_object(name.replace("~1", "/")))


def _copies(obj: dict[str, Any]) -> list[tuple[dict[str, Any], str, str]]:
    """The annotations, and the name and the text of each of them that has a copy of the object as JSON."""
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(annotations, dict):
        return []
    found = annotations.items()
    return [
        (annotations, name, text) for name, text in found if isinstance(text, str) and copies_object(name)
    ]
