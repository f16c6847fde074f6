"""What the Secrets of a phase hold, and what is said of what is missing."""

import base64
import json
from typing import Any

import pytest

from controllers.registrysecrets import contents
from controllers.registrysecrets.contents import DOCKER_CONFIG_KEY, DOCKER_CONFIG_TYPE
from controllers.registrysecrets.models import Keys, Registry
from reconcile import ObjectMeta
from reconcile.blocks import Content, Unusable
from reconcile.kinds import Secret

HOST = "registry.example.com"
PASSWORD = "s3cr3t-pass"


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


def test_the_docker_config_is_copied_to_the_byte() -> None:
    odd = b64('{"auths":{},\n  "credHelpers":{"a":"b"}}')
    assert contents.pull_secret_of(secret(**{DOCKER_CONFIG_KEY: odd})) == Content(
        {DOCKER_CONFIG_KEY: odd}, DOCKER_CONFIG_TYPE
    )


def test_the_sources_own_user_name_and_password_come_first() -> None:
    origin = source({HOST: login()}, username=b64("own"), password=b64("own-pass"))
    assert credentials_of(origin) == {"username": "own", "password": "own-pass"}


def test_a_user_name_alone_is_not_taken_from_the_source() -> None:
    assert credentials_of(source({HOST: login()}, username=b64("own")))["username"] == "robot"


@pytest.mark.parametrize("name", [HOST, f"https://{HOST}", f"http://{HOST}/", f"https://{HOST}/v2/"])
def test_the_login_of_the_host_is_found_however_it_is_written(name: str) -> None:
    origin = source({name: login(), "other.example.com": login("other")})
    assert credentials_of(origin) == {"username": "robot", "password": "pass"}


def test_docker_hub_is_found_under_its_old_name() -> None:
    assert credentials_of(source({"https://index.docker.io/v1/": login()}), "docker.io")["password"] == "pass"


def test_without_a_host_the_only_login_is_taken() -> None:
    assert credentials_of(source({HOST: login()}), host="")["username"] == "robot"


def test_a_login_of_auth_alone_is_decoded_at_its_first_colon() -> None:
    origin = source({HOST: {"auth": b64("robot:a:b")}})
    assert credentials_of(origin) == {"username": "robot", "password": "a:b"}


@pytest.mark.parametrize(
    ("auths", "host", "reason"),
    [
        ({HOST: login(), f"https://{HOST}": login("other")}, HOST, "LoginNotFound"),
        ({"other.example.com": login()}, HOST, "LoginNotFound"),
        ({"a.example.com": login(), "b.example.com": login()}, "", "LoginNotFound"),
        ({HOST: {"auth": b64("token-only")}}, HOST, "LoginIncomplete"),
        ({HOST: {"identitytoken": PASSWORD}}, HOST, "LoginIncomplete"),
    ],
)
def test_a_login_that_is_not_there_is_not_guessed(auths: dict[str, Any], host: str, reason: str) -> None:
    with pytest.raises(Unusable) as raised:
        contents.credentials_of(source(auths), host)
    assert raised.value.reason == reason


@pytest.mark.rule("kubero-5d-04")
@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (None, "KeyMissing"),
        ("ZW1wdHk=", "NotADockerConfig"),
        ("not base64!", "NotADockerConfig"),
        (b64(f'{{"auths": {{"{HOST}": "{PASSWORD}"}}}}'), "NotADockerConfig"),
        (b64(f"{PASSWORD} is no JSON"), "NotADockerConfig"),
        (b64('{"auths": {}}'), "LoginNotFound"),
    ],
)
def test_what_is_no_docker_config_is_never_copied_and_never_quoted(config: str | None, reason: str) -> None:
    with pytest.raises(Unusable) as raised:
        contents.pull_secret_of(secret(**({} if config is None else {DOCKER_CONFIG_KEY: config})))
    assert raised.value.reason == reason
    assert PASSWORD not in raised.value.message


def test_what_a_pipeline_says_itself_makes_the_config_that_kuberos_chart_makes() -> None:
    registry = Registry(create_secret="create", host=HOST, username="robot", password=PASSWORD)
    made = text_of(contents.given_pull_secret(registry))[DOCKER_CONFIG_KEY]
    auth = b64(f"robot:{PASSWORD}")
    assert made == (
        f'{{"auths":{{"{HOST}":{{"username":"robot","password":"{PASSWORD}","auth":"{auth}"}}}}}}'
    )
    assert text_of(contents.given_credentials(registry)) == {"username": "robot", "password": PASSWORD}


@pytest.mark.rule("kubero-5d-04")
@pytest.mark.parametrize("missing", ["host", "username", "password"])
@pytest.mark.parametrize("empty", [None, ""])
def test_credentials_that_are_incomplete_make_nothing(missing: str, empty: str | None) -> None:
    said = {"host": HOST, "username": "robot", "password": PASSWORD, missing: empty}
    registry = Registry(create_secret="create", **said)  # type: ignore[arg-type]
    for made in (contents.given_pull_secret(registry), contents.given_credentials(registry)):
        assert isinstance(made, Unusable)
        assert f"spec.registry.{missing} is needed" in made.message


def test_a_docker_config_is_made_of_the_login_of_a_secret() -> None:
    basic = secret(username=b64("robot"), password=b64(PASSWORD))
    made = text_of(contents.made_pull_secret_of(basic, HOST))[DOCKER_CONFIG_KEY]
    assert json.loads(made)["auths"][HOST]["password"] == PASSWORD
    with pytest.raises(Unusable, match=r"spec\.registry\.host is needed"):
        contents.made_pull_secret_of(basic, "")
    with pytest.raises(Unusable, match="is not text"):
        contents.made_pull_secret_of(secret(username="/w==", password="/w=="), HOST)


def test_deploy_keys_are_both_there_or_none_is_written() -> None:
    keys = Keys(priv=b64("private"), pub=b64("public"))
    assert text_of(contents.given_deploy_keys(keys)) == {"deploykey": "private", "deploykey.pub": "public"}
    for wrong, reason in (
        (Keys(pub=b64("public")), "DeployKeyMissing"),
        (Keys(priv="-----BEGIN", pub=b64("public")), "NotBase64"),
    ):
        made = contents.given_deploy_keys(wrong)
        assert isinstance(made, Unusable)
        assert (made.reason, "BEGIN" in made.message) == (reason, False)
    held = {"deploykey": b64("private"), "deploykey.pub": b64("public")}
    assert contents.deploy_keys_of(secret(**held, more="eA==")).data == held
    with pytest.raises(Unusable, match=r"has no key deploykey\.pub"):
        contents.deploy_keys_of(secret(deploykey=b64("private")))


def test_no_value_is_in_what_a_content_or_a_registry_shows() -> None:
    registry = Registry(host=HOST, username="robot", password=PASSWORD, further={"token": PASSWORD})
    shown = repr((registry, contents.given_pull_secret(registry), Keys(priv=PASSWORD, pub=PASSWORD)))
    assert PASSWORD not in shown
    assert b64(PASSWORD) not in shown
