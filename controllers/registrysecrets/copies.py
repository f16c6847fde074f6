"""The two Secrets that a phase's namespace gets from the source. Messages never hold a value."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import field, frozen

from .views import SecretView

PULL_SECRET = "kubero-pull-secret"
CREDENTIALS = "registry-credentials"
COPY_NAMES = (PULL_SECRET, CREDENTIALS)
DOCKER_CONFIG_TYPE = "kubernetes.io/dockerconfigjson"
DOCKER_CONFIG_KEY = ".dockerconfigjson"
_DOCKER_HUB = "docker.io"


@frozen
class SecretCopy:
    """A Secret as it should be. Other labels and annotations it may have are not ours to say."""

    namespace: str
    name: str
    type: str
    data: Mapping[str, str] = field(repr=False)
    labels: Mapping[str, str]

    def manifest(self) -> dict[str, object]:
        """The Secret as the API takes it."""
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": dict(self.labels)},
            "type": self.type,
            "data": dict(self.data),
        }


@frozen
class Content:
    """What a copy holds, in whichever namespace."""

    name: str
    type: str
    data: Mapping[str, str] = field(repr=False)


def difference(copy: SecretCopy, stands: SecretView) -> dict[str, Any]:
    """The merge patch that gives `stands` exactly the copy's data and at least its labels."""
    changed = {key: value for key, value in copy.data.items() if stands.data.get(key) != value}
    data: dict[str, str | None] = {**changed, **{key: None for key in stands.data if key not in copy.data}}
    labels = {name: value for name, value in copy.labels.items() if stands.labels.get(name) != value}
    return {
        **({"data": data} if data else {}),
        **({"metadata": {"labels": labels}} if labels else {}),
    }


class UnusableSource(Exception):
    """The source Secret is there but lacks what a copy needs; says what, never a value.

    `reason` is the CamelCase reason of a condition.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class _Login(msgspec.Struct):
    username: str = ""
    password: str = ""
    auth: str = ""


class _DockerConfig(msgspec.Struct):
    auths: dict[str, _Login] = {}


def pull_secret(source: SecretView) -> Content:
    """The docker config, unchanged. Raises `UnusableSource` if it is missing or no docker config."""
    encoded = source.data.get(DOCKER_CONFIG_KEY)
    if not encoded:
        raise UnusableSource("KeyMissing", f"{_where(source)} has no key {DOCKER_CONFIG_KEY}")
    _docker_config(source, encoded)
    return Content(PULL_SECRET, DOCKER_CONFIG_TYPE, {DOCKER_CONFIG_KEY: encoded})


def credentials(source: SecretView, host: str) -> Content:
    """User name and password: the source's own keys where it has both, else from its docker config.

    There the entry of `host` is taken; without a host, the only entry. Raises `UnusableSource` when
    that is not there or not a login with a password (an identity token is none).
    """
    username, password = source.data.get("username"), source.data.get("password")
    if not username or not password:
        username, password = _login(source, host)
    return Content(CREDENTIALS, "Opaque", {"username": username, "password": password})


def _login(source: SecretView, host: str) -> tuple[str, str]:
    auths = _docker_config(source, source.data.get(DOCKER_CONFIG_KEY, "")).auths
    entries = [entry for name, entry in auths.items() if not host or _registry(name) == _registry(host)]
    if len(entries) != 1:
        wanted = f"of host {host}" if host else "(spec.registry.host does not say which to take)"
        raise UnusableSource(
            "LoginNotFound", f"{_where(source)} has {len(entries)} logins {wanted}; one is needed"
        )
    username, password = entries[0].username, entries[0].password
    if not username or not password:
        username, password = _decoded_auth(entries[0].auth)
    if not username or not password:
        raise UnusableSource("LoginIncomplete", f"{_where(source)} has a login without user name or password")
    return _base64(username), _base64(password)


def _docker_config(source: SecretView, encoded: str) -> _DockerConfig:
    try:
        return msgspec.json.decode(base64.b64decode(encoded, validate=True), type=_DockerConfig)
    except (binascii.Error, msgspec.DecodeError):
        message = f"{DOCKER_CONFIG_KEY} of {_where(source)} is not a docker config"
        # The decoder's own message may quote the value.
        raise UnusableSource("NotADockerConfig", message) from None


def _decoded_auth(auth: str) -> tuple[str, str]:
    try:
        username, _, password = base64.b64decode(auth, validate=True).decode().partition(":")
    except ValueError:
        return "", ""
    return username, password


def _registry(name: str) -> str:
    """A registry's name as logins write it in many ways: with a scheme, a version path, Hub's old host."""
    bare = name.removeprefix("https://").removeprefix("http://").rstrip("/")
    bare = bare.removesuffix("/v1").removesuffix("/v2").lower()
    return _DOCKER_HUB if bare in ("index.docker.io", "registry-1.docker.io") else bare


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _where(source: SecretView) -> str:
    return f"Secret {source.namespace}/{source.name}"
