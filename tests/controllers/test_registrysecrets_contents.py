"""What the Secrets of a phase hold, and what is said of what is missing."""

import base64
import json
from typing import Any

import pytest

from controllers.registrysecrets import secret_contents as contents
from controllers.registrysecrets.models import Keys, PipelineRegistry
from controllers.registrysecrets.secret_contents import DOCKER_CONFIG_KEY, DOCKER_CONFIG_TYPE
from reconcile import ObjectMeta
from reconcile.blocks import Content, Unusable
from reconcile.kinds import Secret

HOST = "registry.example.com"
PASSWORD = "s3cr3t-pass"
NOT_BASE64 = "is not base64 in one line, as a server keeps it"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def login(password: str = "pass") -> dict[str, str]:
    return {"username": "robot", "password": password}


def secret(**data: str) -> Secret:
    return Secret(metadata=ObjectMeta("registry-login", "kubero"), data=data)


def source(auths: dict[str, Any], **data: str) -> Secret:
    return secret(**{DOCKER_CONFIG_KEY: b64(json.dumps({"auths": auths})), **data})


def text_of(content: Content | Unusable) -> dict[str, str]:
    assert isinstance(content, Content), content
    return {key: base64.b64decode(value).decode() for key, value in content.data.items()}


def credentials_of(origin: Secret, host: str = HOST) -> dict[str, str]:
    return text_of(contents.credentials_of(origin, host))


def test_the_docker_config_is_copied_byte_for_byte() -> None:
    odd = b64('{"auths":{},\n  "credHelpers":{"a":"b"}}')
    assert contents.pull_secret_of(secret(**{DOCKER_CONFIG_KEY: odd})) == Content(
        {DOCKER_CONFIG_KEY: odd}, DOCKER_CONFIG_TYPE
    )


def test_the_sources_own_user_name_and_password_take_precedence() -> None:
    origin = source({HOST: login()}, username=b64("own"), password=b64("own-pass"))
    assert credentials_of(origin) == {"username": "own", "password": "own-pass"}


def test_a_user_name_alone_is_not_taken_from_the_source() -> None:
    assert credentials_of(source({HOST: login()}, username=b64("own")))["username"] == "robot"


@pytest.mark.parametrize("name", [HOST, f"https://{HOST}", f"http://{HOST}/", f"https://{HOST}/v2/"])
def test_the_login_of_the_host_is_found_in_any_spelling(name: str) -> None:
    origin = source({name: login(), "other.example.com": login("other")})
    assert credentials_of(origin) == {"username": "robot", "password": "pass"}


@pytest.mark.parametrize("name", ["docker.io", "https://index.docker.io/v1/", "Registry-1.Docker.io/v2"])
@pytest.mark.parametrize("host", ["docker.io", "index.docker.io", "registry-1.docker.io"])
def test_docker_hub_is_found_under_each_of_its_names(name: str, host: str) -> None:
    assert credentials_of(source({name: login(), HOST: login("other")}), host)["password"] == "pass"


def test_the_name_of_a_registry_is_case_insensitive() -> None:
    assert credentials_of(source({"https://REGISTRY.BOX/": login()}), "registry.box")["password"] == "pass"


def test_without_a_host_the_only_login_is_used() -> None:
    assert credentials_of(source({HOST: login()}), host="")["username"] == "robot"


def test_a_login_with_only_auth_is_decoded_at_its_first_colon() -> None:
    origin = source({HOST: {"auth": b64("robot:a:b")}})
    assert credentials_of(origin) == {"username": "robot", "password": "a:b"}


@pytest.mark.parametrize("entry", [{"username": "robot"}, {"password": "pass"}, {}])
def test_a_login_without_a_name_or_a_password_takes_both_from_its_auth(entry: dict[str, str]) -> None:
    origin = source({HOST: {**entry, "auth": b64("from:auth")}})
    assert credentials_of(origin) == {"username": "from", "password": "auth"}


SOURCE = "Secret kubero/registry-login"
NONE_OF_HOST = f"{SOURCE} has 0 logins of host {HOST}; expected one"
TWO_OF_HOST = f"{SOURCE} has 2 logins of host {HOST}; expected one"
ANY_OF_TWO = f"{SOURCE} has 2 logins (spec.registry.host does not select one); expected one"
HALF = f"{SOURCE} has a login without user name or password"


@pytest.mark.parametrize(
    ("auths", "host", "reason", "message"),
    [
        ({HOST: login(), f"https://{HOST}": login("other")}, HOST, "LoginNotFound", TWO_OF_HOST),
        ({"other.example.com": login()}, HOST, "LoginNotFound", NONE_OF_HOST),
        ({"a.example.com": login(), "b.example.com": login()}, "", "LoginNotFound", ANY_OF_TWO),
        ({HOST: {"auth": b64("token-only")}}, HOST, "LoginIncomplete", HALF),
        ({HOST: {"auth": f"!{b64('robot:pass')}"}}, HOST, "LoginIncomplete", HALF),
        ({HOST: {"auth": "/w=="}}, HOST, "LoginIncomplete", HALF),
        ({HOST: {"identitytoken": PASSWORD}}, HOST, "LoginIncomplete", HALF),
        ({HOST: {"username": "robot"}}, HOST, "LoginIncomplete", HALF),
    ],
)
def test_a_missing_login_is_an_error_and_not_guessed(
    auths: dict[str, Any], host: str, reason: str, message: str
) -> None:
    with pytest.raises(Unusable) as raised:
        contents.credentials_of(source(auths), host)
    assert (raised.value.reason, raised.value.message) == (reason, message)


NO_KEY = f"{SOURCE} has no key {DOCKER_CONFIG_KEY}"
LATIN_1 = base64.b64encode('{"auths": {"a": {"password": "gr\u00fcn"}}}'.encode("latin-1")).decode()
NO_CONFIG = f"{DOCKER_CONFIG_KEY} of {SOURCE} is not a docker config"
NO_LOGIN = f"{DOCKER_CONFIG_KEY} of {SOURCE} has no login"


@pytest.mark.rule("kubero-5d-04")
@pytest.mark.parametrize(
    ("config", "reason", "message"),
    [
        (None, "KeyMissing", NO_KEY),
        ("", "KeyMissing", NO_KEY),
        ("ZW1wdHk=", "NotADockerConfig", NO_CONFIG),
        ("not base64!", "NotADockerConfig", NO_CONFIG),
        (b64(f'{{"auths": {{"{HOST}": "{PASSWORD}"}}}}'), "NotADockerConfig", NO_CONFIG),
        (b64(f"{PASSWORD} is no JSON"), "NotADockerConfig", NO_CONFIG),
        (LATIN_1, "NotADockerConfig", NO_CONFIG),
        (b64("[" * 100_000), "NotADockerConfig", NO_CONFIG),
        (b64('{"auths": {}}'), "LoginNotFound", NO_LOGIN),
    ],
)
def test_an_invalid_docker_config_is_never_copied_and_never_quoted(
    config: str | None, reason: str, message: str
) -> None:
    with pytest.raises(Unusable) as raised:
        contents.pull_secret_of(secret(**({} if config is None else {DOCKER_CONFIG_KEY: config})))
    assert (raised.value.reason, raised.value.message) == (reason, message)


def test_a_secret_without_a_login_is_reported_with_the_missing_key() -> None:
    with pytest.raises(Unusable) as raised:
        contents.credentials_of(secret(username=b64("robot")), HOST)
    assert (raised.value.reason, raised.value.message) == ("KeyMissing", NO_KEY)


def test_a_login_in_the_pipeline_gives_the_same_config_as_the_kubero_chart() -> None:
    registry = PipelineRegistry(create_secret="create", host=HOST, username="robot", password=PASSWORD)
    config, credentials = contents.given_login(registry)
    made = text_of(config)[DOCKER_CONFIG_KEY]
    auth = b64(f"robot:{PASSWORD}")
    assert made == (
        f'{{"auths":{{"{HOST}":{{"username":"robot","password":"{PASSWORD}","auth":"{auth}"}}}}}}'
    )
    assert text_of(credentials) == {"username": "robot", "password": PASSWORD}


@pytest.mark.rule("kubero-5d-04")
@pytest.mark.parametrize("missing", ["host", "username", "password"])
@pytest.mark.parametrize("empty", [None, ""])
def test_incomplete_credentials_give_no_content(missing: str, empty: str | None) -> None:
    said = {"host": HOST, "username": "robot", "password": PASSWORD, missing: empty}
    registry = PipelineRegistry(create_secret="create", **said)  # type: ignore[arg-type]
    needed = f"createSecret create requires spec.registry.{missing} or a secretRef; existing copies are kept"
    for made in contents.given_login(registry):
        assert isinstance(made, Unusable)
        assert (made.reason, made.message) == ("CredentialsMissing", needed)


def test_a_docker_config_is_built_from_the_login_of_a_secret() -> None:
    basic = secret(username=b64("robot"), password=b64(PASSWORD))
    made = text_of(contents.made_pull_secret_of(basic, HOST))[DOCKER_CONFIG_KEY]
    assert json.loads(made)["auths"][HOST]["password"] == PASSWORD
    with pytest.raises(Unusable, match=r"^spec\.registry\.host is required for a docker config$") as raised:
        contents.made_pull_secret_of(basic, "")
    assert raised.value.reason == "HostMissing"
    for wrong in ({"username": "/w=="}, {"password": "/w=="}):
        with pytest.raises(Unusable, match=rf"^the login of {SOURCE} is not text$") as raised:
            contents.made_pull_secret_of(secret(**{**basic.data, **wrong}), HOST)
        assert raised.value.reason == "NotText"


PRIVATE, PUBLIC = b64("private"), b64("public")


def test_both_deploy_keys_are_written() -> None:
    given = contents.given_deploy_keys(Keys(priv=PRIVATE, pub=PUBLIC))
    assert given == Content({"deploykey": PRIVATE, "deploykey.pub": PUBLIC})
    held = {"deploykey": PRIVATE, "deploykey.pub": PUBLIC}
    assert contents.deploy_keys_of(secret(**held, more="eA==")) == Content(held)


@pytest.mark.parametrize(
    ("keys", "reason", "message"),
    [
        (Keys(pub=PUBLIC), "DeployKeyMissing", "deploy keys require spec.git.keys.priv"),
        (Keys(priv=PRIVATE), "DeployKeyMissing", "deploy keys require spec.git.keys.pub"),
        (Keys(priv="-----BEGIN", pub=PUBLIC), "NotBase64", f"spec.git.keys.priv {NOT_BASE64}"),
        (Keys(priv=PRIVATE, pub="öffentlich"), "NotBase64", f"spec.git.keys.pub {NOT_BASE64}"),
        # A server would take these two, and would keep other text than was written.
        (Keys(priv=f"{PRIVATE}\n", pub=PUBLIC), "NotBase64", f"spec.git.keys.priv {NOT_BASE64}"),
        (Keys(priv="eB==", pub=PUBLIC), "NotBase64", f"spec.git.keys.priv {NOT_BASE64}"),
    ],
)
def test_incomplete_or_non_base64_deploy_keys_are_not_written(keys: Keys, reason: str, message: str) -> None:
    made = contents.given_deploy_keys(keys)
    assert isinstance(made, Unusable)
    assert (made.reason, made.message) == (reason, message)


@pytest.mark.parametrize("missing", ["deploykey", "deploykey.pub"])
def test_a_secret_with_only_one_deploy_key_is_not_copied(missing: str) -> None:
    (there,) = {"deploykey", "deploykey.pub"} - {missing}
    for data in ({there: PRIVATE}, {there: PRIVATE, missing: ""}):
        with pytest.raises(Unusable) as raised:
            contents.deploy_keys_of(secret(**data))
        assert (raised.value.reason, raised.value.message) == ("KeyMissing", f"{SOURCE} has no key {missing}")


def test_the_repr_of_a_content_or_a_registry_has_no_value() -> None:
    registry = PipelineRegistry(host=HOST, username="robot", password=PASSWORD, extra={"token": PASSWORD})
    shown = repr((registry, contents.given_login(registry), Keys(priv=PASSWORD, pub=PASSWORD)))
    assert PASSWORD not in shown
    assert b64(PASSWORD) not in shown
