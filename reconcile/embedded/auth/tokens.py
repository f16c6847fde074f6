"""Bearer tokens: those given to a listening server, and those that it signs for service accounts."""

import base64
import binascii
import datetime
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from informers.clock import Clock
from informers.resource import Key
from reconcile.embedded.auth.users import User, service_account
from reconcile.embedded.log import Log, StorageKey

ISSUER = "https://kubernetes.default.svc.cluster.local"
"""The issuer of tokens, and their audience unless another is requested."""

SERVICE_ACCOUNTS: StorageKey = ("", "serviceaccounts")

_POD_NAME = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"


class Tokens:
    """Maps tokens to users, and issues those of service accounts: JWTs signed with this server's key."""

    def __init__(self, clock: Clock, log: Log) -> None:
        self._clock = clock
        self._log = log
        self._key = b""
        self._given: dict[str, User] = {}

    def sign_with(self, key: bytes) -> None:
        """Sign with this key, so that tokens of an earlier run that had it stay good."""
        self._key = key

    @contextmanager
    def knowing(self, given: Mapping[str, User]) -> Iterator[None]:
        """Accept these tokens too, until the context is left."""
        self._given.update(given)
        try:
            yield
        finally:
            for token in given:
                self._given.pop(token, None)

    def issue(
        self, namespace: str, name: str, uid: str, audiences: list[str], seconds: int, bound: dict[str, Any]
    ) -> tuple[str, datetime.datetime]:
        """A token and when it expires: after `seconds`, or with the object of `bound`, its boundObjectRef."""
        now = self._clock.now()
        expires = now + datetime.timedelta(seconds=seconds)
        private: dict[str, Any] = {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}}
        if bound:
            private[bound["kind"].lower()] = {"name": bound["name"], "uid": bound["uid"]}
        claims = {
            "aud": audiences,
            "exp": int(expires.timestamp()),
            "iat": int(now.timestamp()),
            "iss": ISSUER,
            "jti": str(self._clock.uuid()),
            "kubernetes.io": private,
            "nbf": int(now.timestamp()),
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        head = {"alg": "HS256", "typ": "JWT"}
        text = f"{_encoded(msgspec.json.encode(head))}.{_encoded(msgspec.json.encode(claims))}"
        return f"{text}.{_encoded(self._signature(text))}", expires

    def user_of(self, token: str, audiences: tuple[str, ...] = (ISSUER,)) -> User | None:
        """The user of a token; None if it is unknown or expired, or its account or bound object is gone."""
        for known, user in self._given.items():
            if hmac.compare_digest(known.encode(), token.encode(errors="surrogateescape")):
                return user if ISSUER in audiences else None
        claims = self._claims(token)
        if claims is None or not set(audiences) & set(claims["aud"]):
            return None
        now = self._clock.now().timestamp()
        if not claims["nbf"] <= now < claims["exp"]:
            return None
        private = claims["kubernetes.io"]
        namespace, account = private["namespace"], private["serviceaccount"]
        if not self._exists(SERVICE_ACCOUNTS, namespace, account):
            return None
        extra = {"authentication.kubernetes.io/credential-id": f"JTI={claims['jti']}"}
        for kind, plural in (("pod", "pods"), ("secret", "secrets")):
            if kind in private and not self._exists(("", plural), namespace, private[kind]):
                return None
        if pod := private.get("pod"):
            extra |= {_POD_NAME: pod["name"], _POD_UID: pod["uid"]}
        return service_account(namespace, account["name"], account["uid"], extra)

    def _exists(self, resource: StorageKey, namespace: str, reference: dict[str, str]) -> bool:
        stored = self._log.get(resource, Key(namespace, reference["name"]))
        return stored is not None and stored.uid == reference["uid"]

    def _claims(self, token: str) -> dict[str, Any] | None:
        text, dot, signature = token.rpartition(".")
        if not dot or text.count(".") != 1:
            return None
        try:
            signed = hmac.compare_digest(_decoded(signature), self._signature(text))
            claims: dict[str, Any] = msgspec.json.decode(_decoded(text.partition(".")[2]))
        except (ValueError, binascii.Error):
            return None
        return claims if signed else None

    def _signature(self, text: str) -> bytes:
        if not self._key:
            self._key = self._clock.uuid().bytes + self._clock.uuid().bytes
        return hmac.digest(self._key, text.encode(), hashlib.sha256)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
