"""What the copies of a registry Secret hold."""

import base64
import json
from typing import Any

import pytest

from controllers.registrysecrets.copies import DOCKER_CONFIG_KEY, UnusableSource, credentials, pull_secret
from controllers.registrysecrets.views import SecretView

HOST = "registry.example.com"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def login(password: str = "pass") -> dict[str, str]:
    return {"username": "robot", "password": password}


def source(auths: dict[str, Any], **data: str) -> SecretView:
    held = {DOCKER_CONFIG_KEY: b64(json.dumps({"auths": auths})), **data}
    return SecretView("registry-login", "kubero", "source-uid", data=held)


def credentials_of(origin: SecretView, host: str = HOST) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in credentials(origin, host).data.items()}


def test_the_docker_config_is_copied_to_the_byte() -> None:
    odd = b64('{"auths":{},\n  "credHelpers":{"a":"b"}}')
    assert pull_secret(SecretView("s", "n", "u", data={DOCKER_CONFIG_KEY: odd})).data == {
        DOCKER_CONFIG_KEY: odd
    }


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


def test_two_logins_of_one_host_are_not_guessed_between() -> None:
    with pytest.raises(UnusableSource, match=f"has 2 logins of host {HOST}; one is needed"):
        credentials(source({HOST: login(), f"https://{HOST}": login("other")}), HOST)
