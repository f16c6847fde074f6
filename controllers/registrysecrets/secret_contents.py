"""The contents of the Secrets in a phase's namespace. Messages name keys and fields, never values."""

import base64

import msgspec

from reconcile.blocks import Content, Unusable
from reconcile.kinds import Secret

from .models import Keys, PipelineRegistry

DOCKER_CONFIG_TYPE = "kubernetes.io/dockerconfigjson"
DOCKER_CONFIG_KEY = ".dockerconfigjson"
DEPLOY_KEY = "deploykey"
DEPLOY_KEY_PUBLIC = "deploykey.pub"
_DOCKER_HUB = "docker.io"


class _Login(msgspec.Struct):
    username: str = ""
    password: str = ""
    auth: str = ""


class _DockerConfig(msgspec.Struct, rename="camel", omit_defaults=True):
    auths: dict[str, _Login] = {}
    cred_helpers: dict[str, str] = {}
    creds_store: str = ""


# --- of a Secret ------------------------------------------------------------------------------------


def pull_secret_of(source: Secret) -> Content:
    """The docker config of a Secret, unchanged. Raises Unusable if it is missing or has no login."""
    config = _docker_config(source)
    if not (config.auths or config.cred_helpers or config.creds_store):
        raise Unusable("LoginNotFound", f"{DOCKER_CONFIG_KEY} of {_where(source)} has no login")
    return Content({DOCKER_CONFIG_KEY: source.data[DOCKER_CONFIG_KEY]}, DOCKER_CONFIG_TYPE)


def credentials_of(source: Secret, host: str) -> Content:
    """User name and password of a Secret: its own keys, or else its docker config.

    The entry of the docker config is that of `host`, or without a host the only one. Raises Unusable if it is
    missing or has no password (an identity token does not count).
    """
    username, password = source.data.get("username"), source.data.get("password")
    if not username or not password:
        return _credentials(*_login(source, host))
    return Content({"username": username, "password": password})


def made_pull_secret_of(source: Secret, host: str) -> Content:
    """A docker config for `host` with the login of a Secret. Raises Unusable."""
    if not host:
        raise Unusable("HostMissing", "spec.registry.host is required for a docker config")
    data = credentials_of(source, host).data
    return _docker_config_for(host, _plain(source, data["username"]), _plain(source, data["password"]))


def deploy_keys_of(source: Secret) -> Content:
    """Raises Unusable if a key is missing."""
    missing = [name for name in (DEPLOY_KEY, DEPLOY_KEY_PUBLIC) if not source.data.get(name)]
    if missing:
        raise Unusable("KeyMissing", f"{_where(source)} has no key {missing[0]}")
    return Content({name: source.data[name] for name in (DEPLOY_KEY, DEPLOY_KEY_PUBLIC)})


# --- of a pipeline's spec -----------------------------------------------------------------------------


def given_login(registry: PipelineRegistry) -> tuple[Content | Unusable, Content | Unusable]:
    """The login in the pipeline's spec, as a docker config, and as user name and password."""
    host, username, password = registry.host, registry.username, registry.password
    if host and username and password:
        return _docker_config_for(host, username, password), _credentials(username, password)
    field = next(name for name in ("host", "username", "password") if not getattr(registry, name))
    why = f"createSecret create requires spec.registry.{field} or a secretRef; existing copies are kept"
    missing = Unusable("CredentialsMissing", why)
    return missing, missing


def given_deploy_keys(keys: Keys) -> Content | Unusable:
    """The deploy keys in the pipeline's spec, already in base64."""
    given = {"priv": keys.priv or "", "pub": keys.pub or ""}
    for field, value in given.items():
        if not value:
            return Unusable("DeployKeyMissing", f"deploy keys require spec.git.keys.{field}")
        if not _is_base64(value):
            return Unusable(
                "NotBase64", f"spec.git.keys.{field} is not base64 in one line, as a server keeps it"
            )
    return Content({DEPLOY_KEY: given["priv"], DEPLOY_KEY_PUBLIC: given["pub"]})


# --- within -----------------------------------------------------------------------------------------


def _credentials(username: str, password: str) -> Content:
    return Content.of_text(username=username, password=password)


def _docker_config_for(host: str, username: str, password: str) -> Content:
    auth = base64.b64encode(f"{username}:{password}".encode()).decode()
    config = msgspec.json.encode(_DockerConfig({host: _Login(username, password, auth)}))
    return Content({DOCKER_CONFIG_KEY: base64.b64encode(config).decode()}, DOCKER_CONFIG_TYPE)


def _login(source: Secret, host: str) -> tuple[str, str]:
    auths = _docker_config(source).auths
    entries = [entry for name, entry in auths.items() if not host or _registry(name) == _registry(host)]
    if len(entries) != 1:
        which = f"of host {host}" if host else "(spec.registry.host does not select one)"
        raise Unusable("LoginNotFound", f"{_where(source)} has {len(entries)} logins {which}; expected one")
    username, password = entries[0].username, entries[0].password
    if not username or not password:
        username, password = _decoded_auth(entries[0].auth)
    if not username or not password:
        raise Unusable("LoginIncomplete", f"{_where(source)} has a login without user name or password")
    return username, password


def _docker_config(source: Secret) -> _DockerConfig:
    encoded = source.data.get(DOCKER_CONFIG_KEY)
    if not encoded:
        raise Unusable("KeyMissing", f"{_where(source)} has no key {DOCKER_CONFIG_KEY}")
    try:
        return msgspec.json.decode(base64.b64decode(encoded), type=_DockerConfig)
    except (ValueError, RecursionError, msgspec.DecodeError):  # also of text that is not UTF-8
        message = f"{DOCKER_CONFIG_KEY} of {_where(source)} is not a docker config"
        # The decoder's own message may quote the value.
        raise Unusable("NotADockerConfig", message) from None


def _decoded_auth(auth: str) -> tuple[str, str]:
    try:
        username, _, password = base64.b64decode(auth, validate=True).decode().partition(":")
    except ValueError:
        username = password = ""
    return username, password


def _plain(source: Secret, encoded: str) -> str:
    try:
        return base64.b64decode(encoded).decode()
    except ValueError:
        raise Unusable("NotText", f"the login of {_where(source)} is not text") from None


def _is_base64(text: str) -> bool:
    """Whether a server would store the text unchanged; otherwise each run would write it again."""
    try:
        return base64.b64encode(base64.b64decode(text)).decode() == text
    except ValueError:
        return False


def _registry(name: str) -> str:
    """A registry's name without scheme or version path, and with Docker Hub's current host."""
    bare = name.removeprefix("https://").removeprefix("http://").rstrip("/")
    bare = bare.removesuffix("/v1").removesuffix("/v2").lower()
    return _DOCKER_HUB if bare in ("index.docker.io", "registry-1.docker.io") else bare


def _where(source: Secret) -> str:
    return f"Secret {source.namespace}/{source.name}"
