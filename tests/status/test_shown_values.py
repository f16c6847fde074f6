"""Which values of fields are shown, and how."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.status.shown_values import HIDDEN, ShownValues, path_text, pointer_of, shortened, without_pairs

PLANTED = "s3cr3t-pLanted"


@pytest.mark.parametrize(
    ("steps", "value"),
    [
        (("spec", "password"), PLANTED),
        (("spec", "adminPasswordHash"), PLANTED),
        (("spec", "auth", "token"), PLANTED),
        (("spec", "credentials"), {"user": "a", "key": PLANTED}),
        (("spec", "db", "apiKey"), PLANTED),
        (("data", "tls.key"), PLANTED),
        (("data", "config.yaml"), f"user: a\npassword: {PLANTED}\nsize: 1"),
        (("data", "config.yaml"), f"token: |\n  {PLANTED}\n  more\nsize: 1"),
        (("data", "config.json"), f'{{"user": "a", "client_secret": "{PLANTED} and more"}}'),
        (("data", "nested.json"), f'{{"inner": "{{\\"password\\": \\"{PLANTED}\\"}}"}}'),
        (("data", "open.json"), f'{{"password": "{PLANTED} without an end'),
        (("data", "app.properties"), f"db.password={PLANTED}"),
        (("spec", "url"), f"postgres://admin:{PLANTED}@db/site"),
        (("data", "id"), f"-----BEGIN RSA PRIVATE KEY-----\n{PLANTED}\n-----END RSA PRIVATE KEY-----"),
        (("spec", "env"), [{"name": "DB_PASSWORD", "value": PLANTED}, {"name": "SIZE", "value": "1"}]),
        (
            ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"),
            f'{{"spec":{{"any":"{PLANTED}"}}}}',
        ),
        (
            ("metadata", "annotations", "sites.example.com/last-handled-configuration"),
            f'{{"spec":{{"any":"{PLANTED}"}}}}',
        ),
    ],
)
def test_what_a_name_calls_secret_is_hidden(steps: tuple[str, ...], value: object) -> None:
    text = ShownValues().text(steps, value)
    assert PLANTED not in text
    assert HIDDEN in text


@pytest.mark.parametrize(
    ("steps", "value", "text"),
    [
        (("spec", "secretName"), "site-tls", '"site-tls"'),
        (("spec", "imagePullSecrets"), [{"name": "registry"}], '[{"name":"registry"}]'),
        (("spec", "automountServiceAccountToken"), False, "false"),
        (("spec", "tokenExpirationSeconds"), 600, "600"),
        (("spec", "passwordless"), True, "true"),
        (("spec", "replicas"), 3, "3"),
        (("spec", "keys"), ["a"], '["a"]'),
        (("status", "note"), "the token has expired", '"the token has expired"'),
        (("spec", "none"), None, ""),
    ],
)
def test_what_only_sounds_like_a_secret_is_shown(steps: tuple[str, ...], value: object, text: str) -> None:
    assert ShownValues().text(steps, value) == text


def test_fields_that_a_class_declares_secret_are_hidden_at_any_depth() -> None:
    shown = ShownValues(secret=frozenset({("spec", "rooms", "code")}))
    assert shown.text(("spec", "rooms", 0, "code"), "1234") == f'"{HIDDEN}"'
    assert shown.text(("spec",), {"rooms": [{"code": "1234", "floor": 2}]}) == (
        f'{{"rooms":[{{"code":"{HIDDEN}","floor":2}}]}}'
    )


def test_fields_that_a_class_declares_secret_are_hidden_in_mappings_whatever_their_keys() -> None:
    shown = ShownValues(secret=frozenset({("spec", "rooms", "*", "code")}))
    assert shown.text(("spec", "rooms", "east", "code"), "1234") == f'"{HIDDEN}"'
    assert shown.text(("spec",), {"rooms": {"east": {"code": "1234", "floor": 2}}}) == (
        f'{{"rooms":{{"east":{{"code":"{HIDDEN}","floor":2}}}}}}'
    )
    assert shown.text(("spec", "code"), "1234") == '"1234"'


def test_a_value_that_is_too_long_to_be_searched_is_only_counted() -> None:
    assert ShownValues().text(("data", "blob"), "x" * 20_000) == '"(20000 characters)"'
    many = [PLANTED] * 2000
    assert ShownValues().text(("spec", "list"), many) == f"({len(msgspec.json.encode(many))} characters)"


def test_a_text_is_redacted_before_it_is_cut() -> None:
    shown = ShownValues(redact=lambda text: text.replace(PLANTED, "<secret>"))
    text = shown.text(("data", "note"), "a" * 190 + PLANTED)
    assert PLANTED[:4] not in shortened(text)


def test_a_place_is_written_as_people_read_it() -> None:
    steps = ("metadata", "annotations", "example.com/a", "b", 3)
    assert path_text(steps) == '.metadata.annotations["example.com/a"].b[3]'
    assert pointer_of(steps) == "/metadata/annotations/example.com~1a/b/3"
    assert path_text(()) == "."


@given(
    st.sampled_from(["password", "DB_PASSWORD", "apiKey", "client-secret", "auth_token", "passphrase"]),
    st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=6, max_size=30),
    st.sampled_from(["{}: {}\n", "{}={}\n", '"{}": "{}",', "--{}={} ", "{}: '{}'"]),
    st.text(max_size=30),
)
def test_no_way_to_write_a_pair_shows_its_value(name: str, value: str, form: str, before: str) -> None:
    text = before.replace(value, "") + "\n" + form.format(name, f"Q{value}Q")
    assert f"Q{value}Q" not in without_pairs(text)
